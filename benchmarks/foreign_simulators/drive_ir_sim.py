"""base_navigation's held-out maps in ir-sim (Python, shapely): its differential drive, its lidar, its collisions.

Its conventions: state x, y, yaw in the world, velocity forward and yaw rate, commands the same (m/s, rad/s); a lidar
of n beams over a field of view with both ends in it, so that 361 beams are a degree apart over the full circle, from
behind over the right, ahead and the left; a range without a return is range_max. Commands act at once and without
slip ("theirs"). With the policy's robot's numbers ("ours"), what goes in is late, bounded in acceleration, lags and
slips, drawn for each drive, in steps of 0.05 s; and the scan has the robot's noise and dropouts.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import irsim
import numpy as np
import yaml
from delays import Delay
from numpy.typing import NDArray
from policy_file import PolicyFile
from scans import finite, nearest, rules

Array = NDArray[np.float64]

OURS, STEP_S = "ours", 0.05
BEAMS = 361


class Response:
    """The robot's own: delay, limits of acceleration, lag and slip of speed and yaw rate."""

    def __init__(self, numbers: Mapping[str, Any], step_s: float) -> None:
        self._late = round(numbers["delay_s"] / step_s)
        self._acceleration, self._gain = np.array(numbers["acceleration"]), np.array(numbers["gain"])
        self._keep = np.exp(-step_s / np.array(numbers["lag_s"]))
        self._step_s = step_s
        self._commands: list[Array] = []
        self._setpoint, self._speed = np.zeros(2), np.zeros(2)

    def __call__(self, command: Array) -> Array:
        """Return speed and yaw rate over the next step."""
        self._commands.append(command)
        due = self._commands[-1 - self._late] if len(self._commands) > self._late else np.zeros(2)
        most = self._acceleration * self._step_s
        self._setpoint = self._setpoint + np.clip(due - self._setpoint, -most, most)
        wanted = self._setpoint * self._gain
        self._speed = wanted + (self._speed - wanted) * self._keep
        return self._speed


def world(drive: Mapping[str, Any], job: Mapping[str, Any], step_s: float, folder: Path) -> Any:
    """Return ir-sim's environment of a drive."""
    robot, lidar = job["robot"], job["robot"]["lidar"]
    boxes = [
        {
            "shape": {"name": "rectangle", "length": 2.0 * hx, "width": 2.0 * hy},
            "state": [x, y, float(np.arctan2(s, c))],
        }
        for x, y, c, s, hx, hy in drive["boxes"]
    ]
    circles = [{"shape": {"name": "circle", "radius": r}, "state": [x, y, 0.0]} for x, y, r in drive["circles"]]
    width, height = drive["size_m"]
    scene = {
        "world": {
            "width": width,
            "height": height,
            "offset": [-width / 2.0, -height / 2.0],
            "step_time": step_s,
            "sample_time": step_s,
            "collision_mode": "unobstructed",
        },
        "robot": [
            {
                "kinematics": {"name": "diff"},
                "shape": {"name": "circle", "radius": robot["radius_m"]},
                "state": drive["start"],
                "goal": drive["goal"],
                "vel_min": [-most for most in robot["limits"]],
                "vel_max": robot["limits"],
                "sensors": [
                    {
                        "name": "lidar2d",
                        "range_min": lidar["range_min_m"],
                        "range_max": lidar["range_max_m"],
                        "angle_range": 2.0 * np.pi,
                        "number": BEAMS,
                        "offset": [*lidar["position_m"][:2], 0.0],
                    }
                ],
            }
        ],
        "obstacle": [*boxes, *circles],
    }
    file = folder / "world.yaml"
    file.write_text(yaml.safe_dump(scene))
    return irsim.make(str(file), headless=True, log_level="ERROR")


def drive(policy: PolicyFile, one: Mapping[str, Any], job: Mapping[str, Any], parameters: str, delay_s: float) -> dict:
    """Drive to a goal; return how it ended and when."""
    ours, period_s = parameters == OURS, 1.0 / policy.rate_hz
    step_s = STEP_S if ours else period_s
    environment = world(one, job, step_s, Path.cwd())
    robot, lidar = environment.robot, job["robot"]["lidar"]
    response, rng = Response(one["response"], step_s), np.random.default_rng([job["seed"], one["number"]])
    late, scan = Delay(delay_s, period_s), policy.inputs["scan"]["scan"]
    goal, filling = np.array(one["goal"]), rules(policy.contract, "scan")
    zero, half = np.zeros(2), goal[2] / 2.0
    known = {"goal_position": [*goal[:2], 0.0], "goal_orientation": [0.0, 0.0, np.sin(half), np.cos(half)]}
    speed, ending, time_s, steps = zero, "timed out", 0.0, int(np.ceil(one["limit_s"] / period_s))
    policy.reset()
    beams = robot.get_lidar_scan()
    chosen = nearest(beams["angle_min"] + beams["angle_increment"] * np.arange(BEAMS), scan)
    for _ in range(steps):
        found = robot.get_lidar_scan()
        ranges = np.array(found["ranges"], dtype=float)
        ranges[~np.asarray(found["valid"])] = np.where(
            ranges[~np.asarray(found["valid"])] <= lidar["range_min_m"], lidar["range_min_m"], np.inf
        )
        if ours:
            spread = lidar["noise_m"] + lidar["noise_share"] * np.where(np.isfinite(ranges), ranges, 0.0)
            ranges = ranges + spread * rng.standard_normal(ranges.shape)
            ranges[rng.random(ranges.shape) < lidar["dropout"]] = np.nan
        x, y, yaw = np.ravel(robot.state)[:3]
        signals = {
            **known,
            **late({"scan": finite(ranges[chosen], scan, filling)}),
            "position": [x, y, 0.0],
            "orientation": [0.0, 0.0, np.sin(yaw / 2.0), np.cos(yaw / 2.0)],
            "linear_velocity": [speed[0], 0.0, 0.0],
            "angular_velocity": [0.0, 0.0, speed[1]],
        }
        time_s += period_s
        command = policy.step({name: np.asarray(array)[None] for name, array in signals.items()})["twist"][0]
        for _ in range(round(period_s / step_s)):
            speed = response(command) if ours else command
            environment.step(np.array([[speed[0]], [speed[1]]]))
            if robot.collision:
                break
        if robot.collision:
            ending = "collided"
            break
        if np.hypot(*(np.ravel(robot.state)[:2] - goal[:2])) < job["arrival_m"]:
            ending = "arrived"
            break
    environment.end()
    return {"ending": ending, "time_s": time_s}


def main() -> None:
    """Drive what the job asks for and write the figures."""
    logging.disable()
    parser = argparse.ArgumentParser()
    for name in ("policy", "job", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    chosen = parser.parse_args()
    job, policy = json.loads(chosen.job.read_text()), PolicyFile(chosen.policy)
    rows = []
    for parameters in job["parameters"]:
        for delay_s in job["delays_s"]:
            begun = time.process_time()
            ends = [drive(policy, one, job, parameters, delay_s) for one in job["drives"]]
            endings = [end["ending"] for end in ends]
            taken = [
                end["time_s"] / one["fastest_s"] for end, one in zip(ends, job["drives"]) if end["ending"] == "arrived"
            ]
            rows.append(
                {
                    "parameters": parameters,
                    "scan_delay_s": delay_s,
                    "trials": len(ends),
                    "success": endings.count("arrived") / len(ends),
                    "collided": endings.count("collided") / len(ends),
                    "time_over_shortest": float(np.mean(taken)) if taken else float("nan"),
                    "cpu_s": time.process_time() - begun,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    chosen.out.write_text(json.dumps({"versions": {"ir-sim": version("ir-sim")}, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
