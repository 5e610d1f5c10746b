#!/usr/bin/env python3
"""How well a recording tells a quadrotor's sensors: Crazyflies in MuJoCo whose sensors differ from their file's.

    python benchmarks/identify_sensors.py              # 3 robots, 30 s of flight each

The released policy quadrotor_hover flies to goals that step, with odometry of 0.5 to 2 times the file's noise and an
IMU at 500 Hz of 0.5 to 2 times its noise, with biases of 0.01 rad/s and 0.1 m/s^2 (standard deviations of what is
drawn once per flight) and readings that are 2 to 10 ms late. Odometry is on time.
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
from rlstack.robots.frames import from_yaw
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation

MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")
IMU = ("imu_angular_velocity", "linear_acceleration")
REPORTED_SEED = 1000
"""First seed of the reported robots; lower ones are for tuning."""
BIASES = (0.01, 0.1)
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

    def track(topic: str, those: list[dict[str, Any]], period_s: float, names: tuple[str, ...]) -> Track:
        at_s: Any = period_s * np.arange(len(those))
        return Track(topic, at_s, {name: np.array([row[name] for row in those]) for name in names})

    tracks = {
        "odom": track("odom", rows, PERIOD_S, MOTION),
        "cmd/rotors": track("cmd/rotors", rows, PERIOD_S, ("rotor_speed",)),
        "imu": track("imu", fast, PERIOD_S / READINGS, IMU),
    }
    drawn = flown._noise._biases  # what this flight's biases are, which no recording has
    biases = {
        f"imu_{name}_bias": float(np.sqrt(np.mean(drawn[signal].at(None, (3,)) ** 2)))
        for name, signal in (("angular_velocity", IMU[0]), ("linear_acceleration", IMU[1]))
    }
    return Recorded(Path(f"flight {seed}"), tracks), biases


def main() -> None:
    """Fly, identify, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=REPORTED_SEED)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each flight")
    options = parser.parse_args()
    file = load_quadrotor("crazyflie")
    errors: dict[str, list[float]] = {}
    held: list[bool] = []
    for seed in range(options.first_seed, options.first_seed + options.robots):
        true, truth = other_sensors(file, np.random.default_rng([seed, 0]))
        recorded, biases = fly(true, seed, options.seconds)
        found: Identification = identify(file, [recorded], {"mass": file.body.mass_kg})
        for name, one in found.sensors.items():
            print(f"{seed} {name}: {one.value:.5g} {one.parameter.unit}, {one.interval}, {one.verdict} {one.why}")
            if one.verdict != "told":
                continue
            value = {**truth, **biases}[name]
            scale = 1.0 if name == "imu_delay" else value
            errors.setdefault(name, []).append(abs(one.value - value) / scale)
            if name in truth and one.interval is not None:  # a bias' interval is of its standard deviation
                held.append(one.interval[0] <= value <= one.interval[1])
    print(f"\n{'':<34}{'median error':>14}{'largest':>10}")
    for name, those in errors.items():
        scale, unit = (1e3, "ms") if name == "imu_delay" else (1e2, "%")
        print(f"{name:<34}{scale * np.median(those):>11.2g} {unit:<2}{scale * max(those):>7.2g} {unit}")
    print(f"{sum(held)} of {len(held)} intervals of 90% hold the truth")


if __name__ == "__main__":
    main()
