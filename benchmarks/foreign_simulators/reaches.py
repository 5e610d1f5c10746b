"""arm_reach's trials on any Panda: what the policy is told, and how reaching counts.

Joints are in the policy file's order and units (rad; fingers m), the goal is a point in the arm's base frame, m, and
commands are joint targets. The tool point is the policy's: between the finger tips, on the hand's axis, 0.212 m from
the frame of the seventh link (0.107 m to the flange and 0.105 m on). A simulator's own tool may sit elsewhere.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from delays import Delay
from numpy.typing import NDArray
from policy_file import PolicyFile

Array = NDArray[np.float64]

OURS, TOOL_M = "ours", 0.107 + 0.105
LAST_S = 1.0
"""An arm holds its goal if it is there for this long at the end."""


class Arm(Protocol):
    """A Panda in somebody's simulator."""

    def reset(self, joints: Array) -> None:
        """Start at rest at joint positions (9,)."""

    def state(self) -> tuple[Array, Array, Array]:
        """Return joint positions (9,), velocities (9,) and the tool's place (3,) in the base frame."""

    def step(self, target: Array) -> None:
        """Move for one control period towards joint targets (9,)."""


def reach(policy: PolicyFile, arm: Arm, job: Mapping[str, Any], k: int, delay_s: float) -> Array:
    """Return the tool's distance from the goal after each period of trial ``k``, m."""
    rng = np.random.default_rng([job["seed"], k])
    late, goal = Delay(delay_s, 1.0 / policy.rate_hz), np.array(job["goals"][k])
    policy.reset()
    arm.reset(np.array(job["joints"][k]))
    distance = []
    for _ in range(round(job["duration_s"] * policy.rate_hz)):
        position, velocity, _ = arm.state()
        seen = late(
            {
                "joint_position": position + job["noise"]["joint_position"] * rng.standard_normal(9),
                "joint_velocity": velocity + job["noise"]["joint_velocity"] * rng.standard_normal(9),
            }
        )
        signals = {name: array[None] for name, array in {**seen, "goal_position": goal}.items()}
        arm.step(policy.step(signals)["joint_target"][0])
        distance.append(np.linalg.norm(arm.state()[2] - goal))
    return np.array(distance)


def figures(distance: Array, job: Mapping[str, Any], rate_hz: float) -> dict[str, float]:
    """Return the figures of trials that were ``distance`` (N, T) m from their goals."""
    near = distance < job["tolerance_m"]
    hold, last = max(1, round(job["hold_s"] * rate_hz)), round(LAST_S * rate_hz)
    runs = np.lib.stride_tricks.sliding_window_view(near, hold, axis=1).all(axis=2)
    return {
        "trials": len(distance),
        "success": float(runs.any(axis=1).mean()),
        "held": float(near[:, -last:].all(axis=1).mean()),
        "error_m": float(np.median(distance[:, -last:].mean(axis=1))),
    }


def main(make: Callable[[str, Mapping[str, Any], float], Arm], versions: Callable[[], dict[str, str]]) -> None:
    """Try what the job asks for and write the figures; arguments as :func:`flights.main`."""
    parser = argparse.ArgumentParser()
    for name in ("policy", "job", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    chosen = parser.parse_args()
    job, policy = json.loads(chosen.job.read_text()), PolicyFile(chosen.policy)
    names = policy.inputs["joint_position"]["element_names"]
    if names != job["robot"]["names"]:
        raise ValueError(f"the policy's joints are {names}, not {job['robot']['names']}")
    rows = []
    for parameters in job["parameters"]:
        arm = make(parameters, job, policy.rate_hz)
        for delay_s in job["delays_s"]:
            begun = time.process_time()
            distance = np.array([reach(policy, arm, job, k, delay_s) for k in range(len(job["goals"]))])
            found = figures(distance, job, policy.rate_hz)
            rows.append({"parameters": parameters, "delay_s": delay_s, "cpu_s": time.process_time() - begun, **found})
            print(json.dumps(rows[-1]), flush=True)
    chosen.out.write_text(json.dumps({"versions": versions(), "rows": rows}, indent=1))
