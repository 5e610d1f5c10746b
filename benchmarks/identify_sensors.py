#!/usr/bin/env python3
"""How well a recording tells a robot's sensors: robots in MuJoCo whose sensors differ from their file's.

    python benchmarks/identify_sensors.py              # 3 quadrotors, 30 s of flight each
    python benchmarks/identify_sensors.py --kind base --seconds 60     # 3 TurtleBots in a furnished room

The released policy quadrotor_hover flies to goals that step, with odometry of 0.5 to 2 times the file's noise and an
IMU at 500 Hz of 0.5 to 2 times its noise, with biases of 0.01 rad/s and 0.1 m/s^2 (standard deviations of what is
drawn once per flight) and readings that are 2 to 10 ms late. Odometry is on time. A TurtleBot's lidar sits up to 3 cm
and 0.2 rad off its file's place and has 0.5 to 2 times its noise; a tracker gives the odometry, 2 mm and 3 mrad off.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.identification.identify import Identification, identify
from rlstack.identification.recorded import Recorded, Track
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import load_policy
from rlstack.policies.released import released
from rlstack.robots import load_robot
from rlstack.robots.frames import from_yaw, multiply, rotate
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation

MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")
IMU = ("imu_angular_velocity", "linear_acceleration")
REPORTED_SEED = 1000
"""First seed of the reported robots; lower ones are for tuning."""
BIASES = (0.01, 0.1)
LINEAR = {"imu_delay": "ms", "scan_delay": "ms", "scan_x": "mm", "scan_y": "mm", "scan_yaw": "mrad"}
"""What has an error in this unit; all others a share."""
PERIOD_S, READINGS = 0.01, 5
"""Control period, and readings of the IMU in it."""


def other_sensors(robot: Quadrotor, rng: np.random.Generator) -> tuple[Quadrotor, dict[str, float]]:
    """Return a robot with other sensors, and the true values of their noise and delay."""
    truth: dict[str, float] = {}
    changed: dict[str, Any] = {}
    for name, sensor in robot.sensors.items():
        if name == "joint_states":
            continue
        noise = {
            field.name: float(getattr(sensor, field.name) * rng.uniform(0.5, 2.0))
            for field in dataclasses.fields(sensor)
            if "_noise_" in field.name and getattr(sensor, field.name)
        }
        changed[name] = dataclasses.replace(sensor, **noise)
        truth |= {f"{name}_{key.partition('_noise_')[0]}_noise": value for key, value in noise.items()}
    late_s = float(rng.integers(2, 11)) / 1000.0
    rates, forces = BIASES
    changed["imu"] = dataclasses.replace(
        changed["imu"], angular_velocity_bias_rad_s=rates, linear_acceleration_bias_m_s2=forces, latency_s=late_s
    )
    return dataclasses.replace(robot, sensors={**robot.sensors, **changed}), truth | {"imu_delay": late_s}


def fly(true: Quadrotor, seed: int, seconds: float) -> tuple[Recorded, dict[str, float]]:
    """Return the recording of a flight to goals that step, and the root mean squares of the IMU's drawn biases."""
    flown = SimulatedRobot(Simulation(MujocoEngine, [true]), noise_seed=seed)
    flown.connect()
    flown.reset({"position": [0.0, 0.0, 1.0], "rotor_speed": np.full(4, true.hover_speed_rad_s)})
    policy = load_policy(next(one.path for one in released() if one.name == "quadrotor_hover"))
    rng = np.random.default_rng([seed, 1])
    goal, yaw, due_s = np.array([0.0, 0.0, 1.0]), 0.0, 1.0
    rows: list[dict[str, Any]] = []
    fast: list[dict[str, Any]] = []
    for k in range(round(seconds / PERIOD_S)):
        if PERIOD_S * k >= due_s:
            goal, yaw = rng.uniform([-1.5, -1.5, 0.8], [1.5, 1.5, 2.4]), float(rng.uniform(-2.5, 2.5))
            due_s += float(rng.uniform(0.7, 2.0))
        for part in range(READINGS):
            signals = flown.read().signals
            fast.append({name: signals[name] for name in IMU})
            if part == 0:
                seen = {name: signals[name] for name in MOTION}
                sent = policy.step({**seen, "goal_position": goal, "goal_orientation": from_yaw(yaw)})["rotor_speed"]
                rows.append({**seen, "rotor_speed": sent})
                flown.write({"rotor_speed": sent})
            flown.step(PERIOD_S / READINGS)
    flown.close()

    tracks = {
        "odom": _track("odom", rows, PERIOD_S, MOTION),
        "cmd/rotors": _track("cmd/rotors", rows, PERIOD_S, ("rotor_speed",)),
        "imu": _track("imu", fast, PERIOD_S / READINGS, IMU),
    }
    drawn = flown._noise._biases  # what this flight's biases are, which no recording has
    biases = {
        f"imu_{name}_bias": float(np.sqrt(np.mean(drawn[signal].at(None, (3,)) ** 2)))
        for name, signal in (("angular_velocity", IMU[0]), ("linear_acceleration", IMU[1]))
    }
    return Recorded(Path(f"flight {seed}"), tracks), biases


def _track(topic: str, rows: list[dict[str, Any]], period_s: float, names: tuple[str, ...]) -> Track:
    at_s: Any = period_s * np.arange(len(rows))
    return Track(topic, at_s, {name: np.array([row[name] for row in rows]) for name in names})


TRACKER = {"position": 0.002, "linear_velocity": 0.003, "angular_velocity": 0.005}
HEADING_RAD = 0.003
RATE_HZ, SCAN_EVERY = 30, 3
NEAR_M = 0.5
"""Distance from the room's middle beyond which the base drives back."""


def drive(seed: int, seconds: float) -> tuple[Recorded, dict[str, float]]:
    """Return the recording of a TurtleBot that drives about a furnished room, and what its lidar is."""
    rng, file = np.random.default_rng([seed, 0]), load_robot("turtlebot3_burger")
    lidar = file.lidars["scan"]
    x, y, z = lidar.position_m
    off, turn = rng.uniform(-0.03, 0.03, 2), float(rng.uniform(-0.2, 0.2))
    noises = {f"noise_{key}": float(getattr(lidar, f"noise_{key}") * rng.uniform(0.5, 2.0)) for key in ("m", "share")}
    place = (x + float(off[0]), y + float(off[1]), z)
    moved = dataclasses.replace(lidar, position_m=place, rpy_rad=(0.0, 0.0, turn), **noises)
    true = dataclasses.replace(file, lidars={**file.lidars, "scan": moved})
    truth = {"scan_x": place[0], "scan_y": place[1], "scan_yaw": turn, "scan_delay": 0.0}
    truth |= {f"scan_{key}": value for key, value in noises.items()}
    truth |= {f"odom_{name}_noise": value for name, value in TRACKER.items()} | {"odom_orientation_noise": HEADING_RAD}
    driven = SimulatedRobot(Simulation(MujocoEngine, [true], world="room"), noise_seed=seed)
    driven.connect()
    driven.reset()
    twist, due_s = np.zeros(2), 2.0
    rows: list[dict[str, Any]] = []
    scans: list[dict[str, Any]] = []
    middle = driven.read().signals["position"][:2].copy()
    for k in range(round(RATE_HZ * seconds)):
        signals = driven.read().signals
        if k / RATE_HZ >= due_s:
            goes = rng.choice([0.0, 1.0, 1.0], 2)
            twist, due_s = goes * rng.uniform([0.1, -2.0], [0.2, 2.0]), due_s + float(rng.uniform(0.6, 2.0))
        away = signals["position"][:2] - middle
        ahead = rotate(signals["orientation"], np.array([1.0, 0.0, 0.0]))[:2]
        twist[0] = abs(twist[0]) * (np.sign(-float(away @ ahead)) if np.linalg.norm(away) > NEAR_M else 1.0)
        row = {name: signals[name] + noise * rng.normal(size=3) for name, noise in TRACKER.items()}
        row["orientation"] = multiply(signals["orientation"], from_yaw(HEADING_RAD * float(rng.normal())))
        rows.append({**row, "twist": twist.copy()})
        if k % SCAN_EVERY == 0:
            scans.append(
                {"scan": np.clip(driven.capture("scan").arrays["ranges"], lidar.range_min_m, lidar.range_max_m)}
            )
        driven.write({"twist": twist})
        driven.step(1.0 / RATE_HZ)
    driven.close()
    tracks = {
        "odom": _track("odom", rows, 1.0 / RATE_HZ, MOTION),
        "cmd_vel": _track("cmd_vel", rows, 1.0 / RATE_HZ, ("twist",)),
        "scan": _track("scan", scans, SCAN_EVERY / RATE_HZ, ("scan",)),
    }
    return Recorded(Path(f"drive {seed}"), tracks), truth


def main() -> None:
    """Fly, identify, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("quadrotor", "base"), default="quadrotor")
    parser.add_argument("--robots", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=REPORTED_SEED)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each flight")
    options = parser.parse_args()
    file = load_quadrotor("crazyflie")
    errors: dict[str, list[float]] = {}
    held: list[bool] = []
    for seed in range(options.first_seed, options.first_seed + options.robots):
        biases: dict[str, float] = {}
        if options.kind == "base":
            recorded, truth = drive(seed, options.seconds)
            found: Identification = identify(load_robot("turtlebot3_burger"), [recorded])
        else:
            true, truth = other_sensors(file, np.random.default_rng([seed, 0]))
            recorded, biases = fly(true, seed, options.seconds)
            found = identify(file, [recorded], {"mass": file.body.mass_kg})
        for name, one in found.sensors.items():
            print(f"{seed} {name}: {one.value:.5g} {one.parameter.unit}, {one.interval}, {one.verdict} {one.why}")
            if one.verdict != "told":
                continue
            value = {**truth, **biases}[name]
            scale = 1.0 if name in LINEAR else value
            errors.setdefault(name, []).append(abs(one.value - value) / scale)
            if name in truth and one.interval is not None:  # a bias' interval is of its standard deviation
                held.append(one.interval[0] <= value <= one.interval[1])
    print(f"\n{'':<34}{'median error':>14}{'largest':>10}")
    for name, those in errors.items():
        scale, unit = (1e3, LINEAR[name]) if name in LINEAR else (1e2, "%")
        print(f"{name:<34}{scale * np.median(those):>11.2g} {unit:<4}{scale * max(those):>7.2g} {unit}")
    print(f"{sum(held)} of {len(held)} intervals of 90% hold the truth")


if __name__ == "__main__":
    main()
