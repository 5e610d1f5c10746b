"""The guard with a weak motor: a policy that knows the fault flies until the guard, which does not, takes over.

Each rotor in turn, goals in two directions and speeds from a hover on, with the robot file's odometry noise. The fault
is there before the guard takes over (``before``), begins at that moment (``together``), or while the guard hovers
(``after``). A flight is lost if it tumbles, leaves the fence, or is more than 0.3 m off the guard's own goal 4 s after
the later of the two.

    python benchmarks/guard_weak_motor.py --robot crazyflie --simulator mujoco --factor 0.8 --late 1
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from rlstack.arrays import Array
from rlstack.control.hover import HoverController, HoverGains
from rlstack.guard import CommonMode
from rlstack.kinds.quadrotor.guard import QuadrotorGuard
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.simulation_vector import quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.sim.perturbation import Perturbation

POLICY_S, TOGETHER_S, JUDGED_S = 1.5, 1.0, 4.0
"""Time under the policy, time that the guard hovers before a fault that begins ``after``, and time to settle, s."""

NEAR_M, HEADINGS = 0.3, 2


class Odometry:
    """What the guard sees of N robots: noisy, and some periods late."""

    def __init__(self, robot: Quadrotor, late: int, seed: int) -> None:
        noise = robot.sensors["odom"]
        self._sigma = {
            "position": noise.position_noise_m,
            "linear_velocity": noise.linear_velocity_noise_m_s,
            "angular_velocity": noise.angular_velocity_noise_rad_s,
        }
        self._turn_rad = noise.orientation_noise_rad
        self._late, self._random = late, np.random.default_rng(seed)
        self._on_the_way: list[tuple[float, dict[str, Array]]] = []

    def measure(self, t: float, state: dict[str, Array]) -> tuple[float, dict[str, Array]]:
        """Return the stamp and the signals (N, width) that arrive at ``t``, s."""
        seen = {name: state[name].astype(float) for name in (*self._sigma, "orientation")}
        seen["linear_velocity"] = frames.rotate_inverse(seen["orientation"], seen["linear_velocity"])
        for name, sigma in self._sigma.items():
            seen[name] = seen[name] + self._random.normal(0.0, sigma, seen[name].shape)
        wobble = frames.from_rotation_vector(self._random.normal(0.0, self._turn_rad, seen["position"].shape))
        seen["orientation"] = frames.multiply(seen["orientation"], wobble)
        self._on_the_way.append((t, seen))
        return self._on_the_way[max(0, len(self._on_the_way) - 1 - self._late)]


def weak(robot: Quadrotor, rotor: int, factor: float) -> Quadrotor:
    """Return the robot with one weak rotor."""
    rotors = list(robot.rotors)
    rotors[rotor] = replace(rotors[rotor], thrust_factor=factor * rotors[rotor].thrust_factor)
    return replace(robot, rotors=tuple(rotors))


def fly(robot: Quadrotor, simulator: str, factor: float, when: str, speed: float, late: int, seed: int) -> Array:
    """Return (flights, 3): whether each was held, its largest tilt and its largest distance, under the guard."""
    rotors = len(robot.rotors)
    plan = [
        (rotor, heading) for rotor in range(rotors) for heading in 0.7 + 2.0 * np.pi / HEADINGS * np.arange(HEADINGS)
    ]
    count, period = len(plan), 1.0 / robot.control_rate_hz
    fault = Perturbation.none(count, rotors)
    for k, (rotor, _) in enumerate(plan):
        fault.thrust_scale[k, rotor] = factor
    world = quadrotor_vector(simulator, robot, count, robot.control_rate_hz)
    world.set_perturbation(fault if when == "before" else Perturbation.none(count, rotors))
    start = np.tile([0.0, 0.0, 1.2], (count, 1))
    world.set_state(
        {
            "position": start,
            "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
            "linear_velocity": np.zeros((count, 3)),
            "angular_velocity": np.zeros((count, 3)),
            "rotor_speed": np.full((count, rotors), robot.hover_speed_rad_s),
        }
    )
    guards = [QuadrotorGuard(robot, QuadrotorGuardConfig.from_robot(robot)) for _ in plan]
    policies, goals = [], []
    for rotor, heading in plan:
        known = weak(robot, rotor, factor) if when == "before" else robot
        policies.append(HoverController(known, HoverGains.for_robot(known, speed_m_s=max(speed, 0.1))))
        policies[-1].reset()
        away = 2.0 * speed * np.array([np.cos(heading), np.sin(heading), 0.0])
        goals.append(start[0] + away)
    odometry = Odometry(robot, late, seed)
    applied = np.tile(robot.hover_command, (count, 1))
    taken_s, faulty_s = POLICY_S, {"before": 0.0, "together": POLICY_S, "after": POLICY_S + TOGETHER_S}[when]
    until_s = max(taken_s, faulty_s) + JUDGED_S
    tilt, far, down = np.zeros(count), np.zeros(count), np.zeros(count, dtype=bool)
    for step in range(round(until_s / period)):
        t, state = step * period, world.state()
        if when != "before" and abs(t - faulty_s) < 0.5 * period:
            world.set_perturbation(fault)
        stamp_s, seen = odometry.measure(t, state)
        for k, guard in enumerate(guards):
            signals = {name: array[k] for name, array in seen.items()}
            decisions = [guard.on_observation(t, stamp_s, signals)]
            if step == 0:
                assert guard.arm(t)[0], guard.reason
            if t < taken_s:
                velocity = frames.rotate(signals["orientation"], signals["linear_velocity"])
                turn, where = signals["angular_velocity"], signals["position"]
                wanted = policies[k].command(where, signals["orientation"], velocity, turn, goals[k], 0.0, period)
                decisions.append(guard.on_policy_command(t, stamp_s, wanted))
            decisions.append(guard.on_tick(t))
            for decision in decisions:
                if decision.command is not None:
                    applied[k] = decision.command
            if t > taken_s + 0.05:
                goal = guard._fallback.goal
                distance = float(np.linalg.norm(state["position"][k] - goal))
                down[k] |= guard.mode.role == "off" or guard.mode is CommonMode.POLICY or not np.isfinite(distance)
                if t >= faulty_s:
                    tilt[k] = max(tilt[k], float(frames.tilt(state["orientation"][k])))
                    far[k] = max(far[k], distance)
                if t > until_s - 0.5:
                    down[k] |= distance > NEAR_M
        world.step(applied)
    world.close()
    return np.column_stack([~down, tilt, far])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="crazyflie")
    parser.add_argument("--simulator", default="batch", help="batch, mujoco or pybullet")
    parser.add_argument("--factor", type=float, nargs="+", default=[1.0, 0.8], help="thrust of the weak motor")
    parser.add_argument("--speed", type=float, nargs="+", default=[0.0, 1.0, 2.0], help="m/s")
    parser.add_argument("--when", nargs="+", default=["before", "together", "after"])
    parser.add_argument("--late", type=int, default=1, help="periods by which odometry is late")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    robot = load_quadrotor(given.robot)
    print("factor  fault     speed  held       largest tilt  farthest")
    for factor in given.factor:
        for when in given.when:
            for speed in given.speed:
                began = time.process_time()
                held, tilt, far = fly(robot, given.simulator, factor, when, speed, given.late, given.seed).T
                took = time.process_time() - began
                print(
                    f"{factor:<7g} {when:9} {speed:<6g} {int(held.sum()):2d} of {len(held):2d}"
                    f"   {np.rad2deg(tilt.max()):5.1f} deg     {far.max():5.2f} m    ({took:.0f} CPU-s)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
