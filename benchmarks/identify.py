#!/usr/bin/env python3
"""How well a recording tells what a robot is: robots in MuJoCo whose numbers differ from their file's by 10 to 40%.

    python benchmarks/identify.py                      # 20 quadrotors, 60 s of flight each
    python benchmarks/identify.py --kind base          # 20 TurtleBots, 60 s of driving each
    python benchmarks/identify.py --kind arm --robots 2 --seconds 20   # Pandas, or others with --arm so100
    python benchmarks/identify.py --robots 2 --retrain         # and train the policy on what was found, a minute each
    python benchmarks/identify.py --robots 3 --first-seed 0    # other ones, to tune by
    python benchmarks/identify.py --robots 3 --over-topics 0.5 --bags FOLDER   # flown by the real nodes at half speed

Every quadrotor is a Crazyflie with other mass, inertia, thrust and torque curve, motor lags, delay, drag and centre of
mass. The released policy quadrotor_hover flies it in MuJoCo to goals that step in place and heading, with the sensor
noise of the robot file; robots that it cannot fly are left out and counted. What it was commanded and the noisy
odometry are identified from, with the mass known. --over-topics flies by the real nodes, without lock step, and
records a bag: guard and quadrotor_foundation know the robot, so that it takes off, and the time of a command's effect
is what the machine makes of it. Each bag is identified from twice: with the measured rotor speeds, and without. Every
base is a TurtleBot3 with other wheels, track, lag and delay,
whose firmware has the file's wheels and track; its odometry comes from a tracker. Every arm has other gains, armature,
dry friction and delay, and carries what its controller does not know.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from identified_arms import move, other_arm
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.identification.identify import Identification, identify, read_all
from rlstack.identification.motion_model import Edit
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.robot_file import edited, source_text, write_robot
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.kinds.wheeled_base.simulation_kinematics import base_twist, wheel_speeds
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.policies.released import released
from rlstack.robots import load_robot
from rlstack.robots.frames import from_rotation_vector, from_yaw, multiply, rotate_inverse, tilt
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation

Floats = NDArray[np.floating[Any]]

REPORTED_SEED = 1000
"""First seed of the reported robots; lower ones are for tuning."""
MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")
LEAST_THRUST_TO_WEIGHT = 1.6
LOST_RAD, LOST_M = 1.3, 0.2
"""Tilt above which and height below which the policy has lost a robot: nobody records that."""


def other_robot(robot: Quadrotor, rng: np.random.Generator) -> tuple[Quadrotor, dict[str, float]]:
    """Return a robot with other numbers, and the true value of every parameter."""

    def off() -> float:
        return 1.0 + float(rng.choice([-1.0, 1.0])) * float(rng.uniform(0.1, 0.4))

    body, model = robot.body, robot.rotor_model
    mass, size = body.mass_kg * off(), off()
    inertia = [float(moment * size * rng.uniform(0.9, 1.1)) for moment in body.inertia_kg_m2]
    drag = [float(one * off()) for one in body.linear_drag_n_s_per_m]
    c2 = model.thrust_coefficients[2] * off()
    lift = len(robot.rotors) * c2 * model.speed_max_rad_s**2 / (9.81 * mass)
    c2 *= max(1.0, LEAST_THRUST_TO_WEIGHT / lift)
    torque = model.torque_per_thrust_m * off()
    rise, fall = model.rise_time_constant_s * off(), model.fall_time_constant_s * off()
    delay, shift = int(rng.integers(2, 16)) / 1000.0, rng.uniform(-3e-3, 3e-3, 2)
    rotors = tuple(
        dataclasses.replace(
            rotor, position_m=(rotor.position_m[0] - shift[0], rotor.position_m[1] - shift[1], rotor.position_m[2])
        )
        for rotor in robot.rotors
    )
    true = dataclasses.replace(
        robot,
        body=dataclasses.replace(
            body,
            mass_kg=mass,
            inertia_kg_m2=(inertia[0], inertia[1], inertia[2]),
            linear_drag_n_s_per_m=(drag[0], drag[1], drag[2]),
        ),
        rotors=rotors,
        rotor_model=dataclasses.replace(
            model,
            thrust_coefficients=(0.0, 0.0, c2),
            torque_per_thrust_m=torque,
            rise_time_constant_s=rise,
            fall_time_constant_s=fall,
        ),
    )
    thrust = c2 * robot.hover_speed_rad_s**2
    truth = {"mass": mass, "thrust": thrust, "torque": torque, "rise": rise, "fall": fall, "delay": delay}
    truth["thrust_power"] = 2.0
    truth |= {f"inertia_{axis}": moment for axis, moment in zip("xyz", inertia)}
    truth |= {f"drag_{axis}": one for axis, one in zip("xyz", drag)}
    return true, truth | {"centre_x": float(shift[0]), "centre_y": float(shift[1])}


def fly(true: Quadrotor, delay_s: float, seed: int, seconds: float, drag: float = 0.0) -> Recorded | None:
    """Return the recording of a flight to goals that step, by the released policy; None: it lost the robot.

    ``drag`` is quadratic, N s^2/m^2, besides the robot's own.
    """
    flown = SimulatedRobot(Simulation(MujocoEngine, [true]), noise_seed=seed)
    flown.connect()
    flown.perturb(dataclasses.replace(Perturbation.none(1), delay_s=np.array([delay_s])))
    flown.reset({"position": [0.0, 0.0, 1.0], "rotor_speed": np.full(4, true.hover_speed_rad_s)})
    policy = load_policy(next(one.path for one in released() if one.name == "quadrotor_hover"))
    rng = np.random.default_rng([seed, 1])
    goal, yaw, due_s = np.array([0.0, 0.0, 1.0]), 0.0, 1.0
    rows: list[dict[str, NDArray[Any]]] = []
    for k in range(round(100.0 * seconds)):
        if 0.01 * k >= due_s:
            goal, yaw = rng.uniform([-1.5, -1.5, 0.8], [1.5, 1.5, 2.4]), float(rng.uniform(-2.5, 2.5))
            due_s += float(rng.uniform(0.7, 2.0))
        seen = seen_of(flown)
        aim = {"goal_position": goal, "goal_orientation": from_yaw(yaw)}
        sent = policy.step({**seen, **aim})["rotor_speed"]
        rows.append({**seen, "rotor_speed": sent})
        if tilt(seen["orientation"]) > LOST_RAD or seen["position"][2] < LOST_M:
            return None
        flown.write({"rotor_speed": sent})
        if drag:
            velocity = flown.simulation.motion(0)["linear_velocity"]
            flown.simulation.push(0, -drag * np.linalg.norm(velocity) * velocity, np.zeros(3), 0.01)
        flown.step(0.01)
    flown.close()
    at_s: Any = 0.01 * np.arange(len(rows))
    odom = Track("odom", at_s, {name: np.array([row[name] for row in rows]) for name in MOTION})
    sent_ = Track("cmd/rotors", at_s, {"rotor_speed": np.array([row["rotor_speed"] for row in rows])})
    return Recorded(Path(f"flight {seed}"), {"odom": odom, "cmd/rotors": sent_})


TAKES_OFF = (0.9, 1.3)
"""Thrust over mass, as a factor of the file's, of robots that are flown over topics."""


def fly_over_topics(true: Quadrotor, seed: int, seconds: float, pace: float, bags: Path) -> list[Recorded]:
    """Return the recording of a flight by the real nodes to goals that step; a bag that is there already is read.

    Raises:
        UserError: The flight ended early.
    """
    from rlstack.bringup.goal_steps import GoalStep
    from rlstack.bringup.loop.flight import fly as fly_nodes

    file, bag, robot = load_quadrotor("crazyflie"), bags / f"flight_{seed}", bags / f"robot_{seed}.yaml"
    if not bag.exists():
        body, model = true.body, true.rotor_model
        rows: dict[tuple[str | int, ...], Any] = {
            ("name",): robot.stem,
            ("body", "mass_kg"): body.mass_kg,
            ("body", "inertia_kg_m2"): list(body.inertia_kg_m2),
            ("body", "linear_drag_n_s_per_m"): list(body.linear_drag_n_s_per_m),
            ("rotor_model", "thrust_coefficients"): list(model.thrust_coefficients),
            ("rotor_model", "torque_per_thrust_m"): model.torque_per_thrust_m,
            ("rotor_model", "rise_time_constant_s"): model.rise_time_constant_s,
            ("rotor_model", "fall_time_constant_s"): model.fall_time_constant_s,
            **{("rotors", k, "position_m"): list(rotor.position_m) for k, rotor in enumerate(true.rotors)},
        }
        bags.mkdir(parents=True, exist_ok=True)
        robot.write_text(edited(source_text("crazyflie")[1], [Edit(place, value, "") for place, value in rows.items()]))
        rng, steps, at_s = np.random.default_rng([seed, 1]), [GoalStep(0.0, (0.0, 0.0, 1.0), 0.0)], 1.0
        while at_s < seconds - 1.0:
            x, y, z = map(float, rng.uniform([-1.5, -1.5, 0.8], [1.5, 1.5, 2.4]))
            steps.append(GoalStep(at_s, (x, y, z), float(rng.uniform(-2.5, 2.5))))
            at_s += float(rng.uniform(0.7, 2.0))
        how: dict[str, Any] = {"namespace": file.name, "real_time_factor": pace, "seconds": seconds, "seed": seed}
        flown = fly_nodes("quadrotor_foundation", str(robot), bag, steps=steps, force=True, **how)
        print(f"{seed}: the guard commanded for {flown.took_over_s:.0f} of {seconds:g} s")
    return read_all(file, [bag])


def seen_of(flown: SimulatedRobot) -> dict[str, NDArray[Any]]:
    """Return what the robot measures now."""
    signals = flown.read().signals
    return {name: signals[name] for name in MOTION}


# Bases ---------------------------------------------------------------------------------------------------------------

BASE_NOISE = {"position": 0.002, "orientation": 0.003, "linear_velocity": 0.003, "angular_velocity": 0.005}
"""Standard deviations of a tracked base's odometry, m, rad, m/s and rad/s; the file's has none."""
WHEEL_NOISE_RAD_S = 0.05


def other_base(robot: WheeledBase, rng: np.random.Generator) -> tuple[WheeledBase, dict[str, float], Floats]:
    """Return a base with other wheels, lag and delay, the true values, and its twist over the one it is commanded.

    Its firmware still has the file's radius and track, so it drives and turns by other factors than it is told.
    """

    def off() -> float:
        return 1.0 + float(rng.choice([-1.0, 1.0])) * float(rng.uniform(0.1, 0.4))

    while True:
        wide, big = off(), off()
        factors = np.array([big, big / wide])
        if factors.max() < 1.8:  # a slip below -0.9 is no number of a robot file
            break
    radius = robot.wheels[0].radius_m * big
    wheels = tuple(
        dataclasses.replace(
            wheel,
            radius_m=radius,
            position_m=(
                wheel.position_m[0],
                wheel.position_m[1] * wide,
                wheel.position_m[2] + radius - wheel.radius_m,
            ),
        )
        for wheel in robot.wheels
    )
    motor, limits = robot.wheel_drive, robot.limits
    armature, delay = float(rng.uniform(0.04, 0.12)) * motor.damping_n_m_s_per_rad, int(rng.integers(5, 60)) / 1000.0
    ahead, turning = (1.01 * float(one) for one in factors)  # the firmware has limited the commands already
    true = dataclasses.replace(
        robot,
        wheels=wheels,
        wheel_drive=dataclasses.replace(motor, armature_kg_m2=armature, velocity_max_rad_s=50.0),
        response=dataclasses.replace(robot.response, command_delay_s=delay, command_delay_range_s=(0.0, 0.2)),
        limits=dataclasses.replace(
            limits,
            linear_velocity_m_s=limits.linear_velocity_m_s * ahead,
            angular_velocity_rad_s=limits.angular_velocity_rad_s * turning,
            linear_acceleration_m_s2=limits.linear_acceleration_m_s2 * ahead / 1.01,
            angular_acceleration_rad_s2=limits.angular_acceleration_rad_s2 * turning / 1.01,
        ),
    )
    track = 2.0 * abs(wheels[0].position_m[1])
    turns, each = (track / (2.0 * radius)) ** 2, wheels[0].spin_inertia_kg_m2 + armature
    mass = robot.chassis.mass_kg + sum(wheel.mass_kg for wheel in wheels)
    moment = robot.chassis.inertia_kg_m2[2] + 2.0 * wheels[0].mass_kg * (0.5 * track) ** 2
    truth = {
        "radius": radius,
        "track": track,
        "lag_linear": (mass * radius**2 + 2.0 * each) / (2.0 * motor.damping_n_m_s_per_rad),
        "lag_angular": (moment + 2.0 * each * turns) / (2.0 * motor.damping_n_m_s_per_rad * turns),
        "delay": delay,
    }
    slips = 1.0 - factors * (1.0 - contact_slip(true))
    return true, truth | {"linear_slip": float(slips[0]), "angular_slip": float(slips[1])}, factors


def contact_slip(true: WheeledBase) -> Floats:
    """Return the slip (2,) of MuJoCo's contact itself: at constant speed, straight on and on the spot."""
    found = []
    for twist in ([0.1, 0.0], [0.0, 1.0]):
        driven = SimulatedRobot(Simulation(MujocoEngine, [true]))
        driven.connect()
        driven.write({"twist": np.array(twist)})
        driven.step(2.0)
        signals = driven.read().signals
        reached = np.array([signals["linear_velocity"][0], signals["angular_velocity"][2]])
        found.append(1.0 - float(reached[int(twist[1] > 0.0)]) / max(twist))
        driven.close()
    return np.array(found)


def drive(true: WheeledBase, robot: WheeledBase, factors: Floats, seed: int, seconds: float) -> Recorded:
    """Return the recording of a drive with twists that step; ``robot`` is what its firmware takes it for."""
    driven = SimulatedRobot(Simulation(MujocoEngine, [true]), noise_seed=seed)
    driven.connect()
    driven.reset()
    rng, twist, due_s, rate = np.random.default_rng([seed, 1]), np.zeros(2), 0.5, 30.0
    rows: list[dict[str, Floats]] = []
    times: list[float] = []
    for k in range(round(rate * seconds)):
        times.append(driven.simulation.time_s)  # whole steps of 1 ms, of which a period has 33 or 34
        if k / rate >= due_s:
            goes = rng.choice([0.0, 1.0, 1.0], 2)
            twist, due_s = goes * rng.uniform([-0.2, -2.0], [0.2, 2.0]), due_s + float(rng.uniform(0.6, 2.0))
        signals = driven.read().signals
        row = {name: signals[name] + BASE_NOISE[name] * rng.normal(size=3) for name in BASE_NOISE if name[0] != "o"}
        turn = from_rotation_vector(BASE_NOISE["orientation"] * rng.normal(size=3))
        row["orientation"] = multiply(signals["orientation"], turn)
        row["joint_velocity"] = signals["joint_velocity"] + WHEEL_NOISE_RAD_S * rng.normal(size=2)
        rows.append({**row, "twist": twist})
        driven.write({"twist": base_twist(robot, wheel_speeds(robot, twist)) * factors})
        driven.step(1.0 / rate)
    driven.close()
    at_s: Any = np.array(times)
    each = {"odom": tuple(BASE_NOISE), "cmd_vel": ("twist",), "joint_states": ("joint_velocity",)}
    tracks = {
        topic: Track(topic, at_s, {name: np.array([row[name] for row in rows]) for name in names})
        for topic, names in each.items()
    }
    return Recorded(Path(f"drive {seed}"), tracks)


def hover_error_m(true: Quadrotor, delay_s: float, policy: Path, count: int = 32) -> float:
    """Return a policy's mean distance from its goal, m, from second 2 to 5 of flights from random starts, at most 1."""
    flown, driver = Simulation(MujocoEngine, [true] * count, isolated=True), load_policy(policy)
    flown.open()
    flown.set_perturbation(dataclasses.replace(Perturbation.none(count), delay_s=np.full(count, delay_s)))
    rng, goal = np.random.default_rng(5), np.tile([0.0, 0.0, 2.0], (count, 1))
    flown.set_state(
        {
            "position": goal + rng.uniform(-0.2, 0.2, (count, 3)),
            "orientation": from_rotation_vector(rng.uniform(-0.5, 0.5, (count, 3))),
            "linear_velocity": rng.uniform(-0.5, 0.5, (count, 3)),
            "angular_velocity": rng.uniform(-1.0, 1.0, (count, 3)),
            "rotor_speed": np.full((count, 4), load_quadrotor("crazyflie").hover_speed_rad_s),
        }
    )
    driver.reset(count)
    aim = {"goal_position": goal, "goal_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))}
    errors = []
    for k in range(500):
        state = flown.state()
        turn = from_rotation_vector(rng.normal(0.0, 0.001, (count, 3)))
        velocity = rotate_inverse(state["orientation"], state["linear_velocity"])
        seen = {
            "position": state["position"] + rng.normal(0.0, 0.001, (count, 3)),
            "orientation": multiply(state["orientation"], turn),
            "linear_velocity": velocity + rng.normal(0.0, 0.002, (count, 3)),
            "angular_velocity": state["angular_velocity"] + rng.normal(0.0, 0.002, (count, 3)),
        }
        flown.command(driver.step({**seen, **aim})["rotor_speed"])
        flown.step(0.01)
        if k >= 200:
            errors.append(np.minimum(np.linalg.norm(state["position"] - goal, axis=1), 1.0))
    flown.close()
    return float(np.mean(errors))


def retrained(seed: int, found: Identification, truth: dict[str, float]) -> str:
    """Train quadrotor_hover on the identified file, and return the hover errors on the robot before and after."""
    file = load_quadrotor("crazyflie")
    true, _ = other_robot(file, np.random.default_rng([seed, 0]))
    usual = next(one.path for one in released() if one.name == "quadrotor_hover")
    with tempfile.TemporaryDirectory() as folder:
        robot, run = Path(folder) / f"drone_{seed}.yaml", Path(folder) / "run"
        write_robot(robot, "crazyflie", found)
        words = ["rlstack", "train", "quadrotor_hover", "--robot", str(robot), "--out", str(run), "--no-view"]
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
        before, after = (hover_error_m(true, truth["delay"], policy) for policy in (usual, run / "policy.onnx"))
    own = hover_error_m(file, 0.0, usual)
    return (
        f"{seed}: hovers {1e3 * own:.1f} mm off as the file's robot, {1e3 * before:.1f} as itself, and"
        f" {1e3 * after:.1f} after training on the identified file:"
        f" {100 * (before - after) / (before - own):.0f}% of what was lost"
    )


IN_PROPORTION = "in proportion to "
LINEAR = {"delay": "ms", "centre_x": "mm", "centre_y": "mm", "linear_slip": "", "angular_slip": ""}
"""Parameters whose error is a difference, in this unit; of all others it is a share."""


def quadrotor(seed: int, seconds: float) -> tuple[Identification | None, dict[str, float]]:
    """Fly and identify a quadrotor; None: it cannot be flown."""
    file = load_quadrotor("crazyflie")
    true, truth = other_robot(file, np.random.default_rng([seed, 0]))
    recorded = fly(true, truth["delay"], seed, seconds)
    return None if recorded is None else identify(file, [recorded], {"mass": truth["mass"]}), truth


def base(seed: int, seconds: float) -> tuple[Identification | None, dict[str, float]]:
    """Drive and identify a base."""
    file: Any = load_robot("turtlebot3_burger")
    true, truth, factors = other_base(file, np.random.default_rng([seed, 0]))
    return identify(file, [drive(true, file, factors, seed, seconds)]), truth


def arm(name: str, seed: int, seconds: float) -> tuple[Identification, dict[str, float]]:
    """Move and identify an arm."""
    file: Any = load_robot(name)
    true, truth = other_arm(file, np.random.default_rng([seed, 0]))
    return identify(file, [move(true, truth, seed, seconds)]), truth


def scored(found: Identification, truth: dict[str, float]) -> dict[str, Any]:
    """Return the errors of a robot's parameters, whether the intervals hold the truth, and the gap's ratio."""
    errors, inside = {}, {}
    for name, one in found.estimates.items():
        if name not in truth or one.verdict != "told" or one.interval is None:
            continue  # the rotors' range is read off, not estimated
        linear, true = name in LINEAR, truth[name]
        if one.why.startswith(IN_PROPORTION):  # to the file's value of another number
            scale = one.why.removeprefix(IN_PROPORTION).split(",")[0]
            true *= found.estimates[scale].value / truth[scale]
        errors[name] = abs(one.value - true) if linear else abs(one.value / true - 1.0)
        inside[name] = bool(one.interval[0] <= true <= one.interval[1])
    before, after = ({name: float(one[-1]) for name, one in gap.errors.items()} for gap in (found.before, found.after))
    if found.driven is not None:
        for at, gap in zip((before, after), found.driven):
            at |= {f"{name}, by rotor speeds": float(one[-1]) for name, one in gap.errors.items()}
    ratio = {name: before[name] / after[name] for name in after}
    kept = [name for name, one in found.estimates.items() if one.verdict == "kept"]
    return {"errors": errors, "inside": inside, "ratio": ratio, "after": after, "kept": kept, "cpu_s": found.seconds}


def over_topics(
    seed: int, seconds: float, pace: float, bags: Path
) -> tuple[dict[str, Identification | None], dict[str, float]]:
    """Fly a quadrotor by the real nodes and identify it by each of :data:`WAYS`; None: refused, or the flight ended."""
    file = load_quadrotor("crazyflie")
    true, truth = other_robot(file, np.random.default_rng([seed, 0]))
    lift = truth["thrust"] / truth["mass"] / (file.weight_n / len(file.rotors) / file.body.mass_kg)
    if not TAKES_OFF[0] <= lift <= TAKES_OFF[1]:
        return {}, truth
    del truth["delay"]  # of the simulation: here it is what the machine makes of it
    try:
        (recorded,) = fly_over_topics(true, seed, seconds, pace, bags)
    except UserError as error:
        print(f"{seed}: {error}", flush=True)
        return {}, truth
    alone = {topic: track for topic, track in recorded.tracks.items() if topic != "joint_states"}
    found: dict[str, Identification | None] = {}
    for way, tracks in zip(WAYS, (recorded.tracks, alone)):
        try:
            found[way] = identify(file, [dataclasses.replace(recorded, tracks=tracks)], {"mass": truth["mass"]})
        except UserError as error:
            print(f"{seed}: {way}: refused: {error}", flush=True)
            found[way] = None
    return found, truth


WAYS = ("with measured rotor speeds", "from commands alone")


def main() -> None:
    """Fly, identify, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("quadrotor", "base", "arm"), default="quadrotor")
    parser.add_argument("--arm", default="panda", help="robot file of --kind arm")
    parser.add_argument("--robots", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=REPORTED_SEED)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each flight")
    parser.add_argument("--retrain", action="store_true", help="also train quadrotor_hover for each quadrotor")
    parser.add_argument("--over-topics", type=float, metavar="PACE", help="simulated seconds per second of real nodes")
    parser.add_argument("--bags", type=Path, default=Path("bags"), help="of --over-topics; those there are read again")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {way: [] for way in (WAYS if options.over_topics else ("",))}
    seed, lost, robots = options.first_seed - 1, 0, 0
    while robots < options.robots:
        seed += 1
        found: dict[str, Identification | None]
        if options.over_topics:
            found, truth = over_topics(seed, options.seconds, options.over_topics, options.bags)
        elif options.kind == "arm":
            one, truth = arm(options.arm, seed, options.seconds)
            found = {"": one}
        else:
            other, truth = (quadrotor if options.kind == "quadrotor" else base)(seed, options.seconds)
            found = {} if other is None else {"": other}
        if not found:
            lost += 1
            print(f"{seed}: it cannot be flown", flush=True)
            continue
        robots += 1
        for way, which in found.items():
            if which is None:
                continue
            row = scored(which, truth)
            rows[way].append({"seed": seed, **row})
            if options.retrain and options.kind == "quadrotor":
                print(retrained(seed, which, truth), flush=True)
            worst = max((error, name) for name, error in row["errors"].items())
            term = next(iter(row["ratio"]))
            print(
                f"{seed}{f' {way}' if way else ''}: {row['cpu_s']:.1f} CPU-s of identification, worst {worst[1]}"
                f" {100 * worst[0]:.2f}%, {term} error over 1 s {row['ratio'][term]:.0f} times smaller,"
                f" {sum(row['inside'].values())} of {len(row['inside'])} intervals hold, kept {row['kept']}",
                flush=True,
            )
        if options.json is not None:
            options.json.write_text(json.dumps(rows if options.over_topics else rows[""], indent=1))
    print(f"\n{robots} robots; {lost} more that cannot be flown were left out")
    for way, those in rows.items():
        if those:
            report(way, those)


def report(way: str, rows: list[dict[str, Any]]) -> None:
    """Print the errors of all robots."""
    print(f"\n{way}\n" if way else "", end="")
    print(f"{'parameter':<10} {'median error':>14} {'largest':>10} {'told':>6} {'in 90%':>8}")
    for name in rows[0]["errors"] | rows[-1]["errors"]:
        errors = [row["errors"][name] for row in rows if name in row["errors"]]
        held = [row["inside"][name] for row in rows if name in row["inside"]]
        unit = LINEAR.get(name, "%")
        scale = {"%": 1e2, "": 1.0}.get(unit, 1e3)
        print(
            f"{name:<10} {scale * np.median(errors):>12.3g} {unit} {scale * max(errors):>8.3g} {unit}"
            f" {len(errors):>4} {sum(held):>4}/{len(held)}"
        )
    held = [one for row in rows for one in row["inside"].values()]
    ratios = {name: min(row["ratio"][name] for row in rows) for name in rows[0]["ratio"]}
    print(f"intervals that hold the truth: {np.mean(held):.3f} of {len(held)}")
    print("least ratio of the held-out error over 1 s, before to after:", {k: round(v, 1) for k, v in ratios.items()})
    for name in rows[0]["after"]:
        print(f"held-out {name} after 1 s:", [float(f"{row['after'][name]:.3g}") for row in rows])
    print(f"identification: {np.median([row['cpu_s'] for row in rows]):.1f} CPU-s, median")


if __name__ == "__main__":
    main()
