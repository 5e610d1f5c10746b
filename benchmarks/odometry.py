"""How much an estimate in the loop costs a quadrotor's policy: hovering and tracking with it, and with true odometry.

    python benchmarks/odometry.py [--flights 20] [--seconds 8] [--seed 100] [--json FILE]

A Crazyflie flies in MuJoCo, in process: quadrotor_hover goes to a goal 0.3 m away and stays, quadrotor_foundation
follows a figure of eight, 1.2 m wide, in 6 s. ``odometry`` has the simulator's own, with the noise of the robot file;
``pose`` and ``flow`` have the odometry filter's, from the IMU of the robot file at 500 Hz with biases of 0.05 m/s^2 and
0.005 rad/s, and a motion capture (1 mm, 5 mrad, 20 ms late), or optical flow and a rangefinder (0.05 m/s, 1 cm, 10 ms
late), at 100 Hz. The error is the root mean square of the true distance from where the robot is to be, over the second
half. With flow it drifts, so its error is that of height and velocity, too.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.simulated_tracking import TrackingNoise, TrackingSensors
from rlstack.perception.odometry_filter import OdometryFilter
from rlstack.policies import find_policy, load_policy
from rlstack.robots.frames import from_yaw, rotate_inverse
from rlstack.sim.backends.mujoco import MujocoBackend

SOURCES = ("odometry", "pose", "flow")
STEP_S, EVERY = 0.002, 5
"""Period of the IMU, and how many of them make a control period."""
BIASES = {"imu_angular_velocity": 0.005, "linear_acceleration": 0.05}
GOAL = np.array([0.0, 0.0, 1.0])


def eight(t: float) -> Array:
    """Return the place on the figure of eight at a time."""
    turn = 2.0 * math.pi * t / 6.0
    return GOAL + np.array([0.6 * math.sin(turn), 0.3 * math.sin(2.0 * turn), 0.0])


class Pilot:
    """A policy with its goal or path.

    Args:
        task: ``hover`` or ``tracking``.
    """

    def __init__(self, task: str) -> None:
        name = {"hover": "quadrotor_hover", "tracking": "quadrotor_foundation"}[task]
        self.robot = load_quadrotor("crazyflie")
        self.policy = load_policy(find_policy(name), robot=self.robot)
        self.wanted: Callable[[float], Array] = eight if task == "tracking" else lambda t: GOAL
        self._paths = task == "tracking"

    def command(self, t: float, state: dict[str, Array]) -> Any:
        """Return the command at a time on a state."""
        if self._paths:
            ahead = np.linspace(0.0, 1.0, 11)
            held = {
                "path_time": ahead,
                "path_position": np.array([self.wanted(t + later) for later in ahead]),
                "path_orientation": np.tile(from_yaw(0.0), (11, 1)),
            }
        else:
            held = {"goal_position": GOAL, "goal_orientation": from_yaw(0.0)}
        names = {port.name for port in self.policy.contract.inputs}
        return self.policy.step({name: value for name, value in {**state, **held}.items() if name in names})


def fly(task: str, source: str, seconds: float, seed: int) -> dict[str, float]:
    """Return the errors of one flight."""
    pilot, random = Pilot(task), np.random.default_rng([seed, 7])
    backend = MujocoBackend(pilot.robot, noise_seed=seed, physics_rate_hz=1.0 / STEP_S)
    backend.connect()
    start = pilot.wanted(0.0) + (0.3 * _direction(random) if task == "hover" else 0.0)
    backend.reset({"position": start, "linear_velocity": np.zeros(3)})
    noise = TrackingNoise()
    sensors, estimate = TrackingSensors(noise, seed), OdometryFilter()
    biases = {name: size * _direction(random) for name, size in BIASES.items()}
    due: deque[tuple[float, Callable[[], None]]] = deque()
    off, height, speed = list[float](), list[float](), list[float]()
    for k in range(round(seconds / STEP_S)):
        t = k * STEP_S
        seen, true = backend.read().signals, backend.simulation.motion(0)
        if source != "odometry":
            imu = [seen[name] + biases[name] for name in ("imu_angular_velocity", "linear_acceleration")]
            if k == 0:
                estimate.take_pose(-STEP_S, true["position"], true["orientation"])  # it begins at a known place
            estimate.take_imu(t, *imu)
            if k % EVERY == 0:
                _measure(source, t, true, sensors, noise, estimate, due)
            while due and due[0][0] <= t + 1e-9:
                due.popleft()[1]()
        if k % EVERY == 0:
            state = seen if source == "odometry" else _signals(estimate, imu[0])
            backend.write(pilot.command(t, {name: np.asarray(value) for name, value in state.items()}))
            if t > 0.5 * seconds:
                off.append(float(np.linalg.norm(true["position"] - pilot.wanted(t))))
                if source != "odometry" and estimate.state is not None:
                    height.append(float(estimate.state.position[2] - true["position"][2]))
                    speed.append(float(np.linalg.norm(estimate.state.velocity - true["linear_velocity"])))
        backend.step(STEP_S)
    backend.close()
    errors = {"error_m": off, "height_m": height, "velocity_m_s": speed}
    return {name: float(np.sqrt(np.mean(np.square(values)))) if values else 0.0 for name, values in errors.items()}


def _direction(random: np.random.Generator) -> Array:
    drawn = random.standard_normal(3)
    found: Array = drawn / np.linalg.norm(drawn)
    return found


def _signals(estimate: OdometryFilter, gyro: Array) -> dict[str, Array]:
    state = estimate.state
    assert state is not None
    return {
        "position": state.position,
        "orientation": state.orientation,
        "linear_velocity": rotate_inverse(state.orientation, state.velocity),
        "angular_velocity": gyro - state.angular_velocity_bias,
    }


def _measure(
    source: str,
    t: float,
    true: dict[str, Array],
    sensors: TrackingSensors,
    noise: TrackingNoise,
    estimate: OdometryFilter,
    due: deque[tuple[float, Callable[[], None]]],
) -> None:
    """Measure now, and let the filter have it after the sensor's delay."""
    place, turn = true["position"], true["orientation"]
    if source == "pose":
        pose = sensors.pose(place, turn)
        due.append((t + noise.pose_delay_s, lambda: estimate.take_pose(t, *pose)))
        return
    flow, distance = sensors.flow(turn, true["linear_velocity"]), sensors.range(place, turn)
    due.append((t + noise.flow_delay_s, lambda: estimate.take_flow(t, flow)))
    if distance is not None:
        due.append((t + noise.flow_delay_s, lambda: estimate.take_range(t, distance)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for task in ("hover", "tracking"):
        for source in SOURCES:
            flights = [fly(task, source, options.seconds, options.seed + k) for k in range(options.flights)]
            mean = {name: float(np.sqrt(np.mean([one[name] ** 2 for one in flights]))) for name in flights[0]}
            found.setdefault(task, {})[source] = mean
            ratio = mean["error_m"] / found[task]["odometry"]["error_m"]
            print(
                f"{task:<9} {source:<9} error {100.0 * mean['error_m']:6.2f} cm, {ratio:5.2f} of that with odometry"
                + (
                    f"; estimate off by {100.0 * mean['height_m']:.2f} cm in height, {mean['velocity_m_s']:.3f} m/s"
                    if source != "odometry"
                    else ""
                ),
                flush=True,
            )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
