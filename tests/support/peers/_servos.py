"""Servos of an arm as their bus shows them, whatever its protocol: where they are and how they move."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

from rlstack.kinds.manipulator.spec import Manipulator

TURN = 4096

Move = Callable[[list[float], list[bool], float], list[tuple[float, float]]]
"""Goals (ticks), torques and a time (s) to each servo's position (ticks) and speed (ticks/s)."""


class Lag:
    """Servos that follow their goals with a time constant, no faster than they can; without torque they stay."""

    def __init__(self, at: list[float], constant_s: float = 0.05, fastest: float = 3000.0) -> None:
        self.at, self._constant_s, self._fastest = list(at), constant_s, fastest

    def __call__(self, goals: list[float], torques: list[bool], passed_s: float) -> list[tuple[float, float]]:
        found = []
        for k, (goal, torque) in enumerate(zip(goals, torques)):
            share = 1.0 - math.exp(-passed_s / self._constant_s)
            step = (goal - self.at[k]) * share if torque else 0.0
            most = self._fastest * passed_s
            step = min(max(step, -most), most)
            self.at[k] += step
            found.append((self.at[k], step / passed_s if passed_s > 0.0 else 0.0))
        return found


def ranges(robot: Manipulator) -> list[tuple[int, int]]:
    """Return the ticks at the ends of each joint, with the middle at 2047 as LeRobot places it."""
    found = []
    for joint in robot.drives:
        half = 0.5 * (joint.upper - joint.lower) * TURN / (2.0 * math.pi)
        found.append((max(round(2047 - half), 0), min(round(2047 + half), TURN - 1)))
    return found


def calibration(robot: Manipulator, offsets: list[int], path: Path) -> Path:
    """Write the file that LeRobot writes for such an arm."""
    file = {
        joint.name: {"id": k + 1, "drive_mode": 0, "homing_offset": offset, "range_min": low, "range_max": high}
        for k, (joint, offset, (low, high)) in enumerate(zip(robot.drives, offsets, ranges(robot)))
    }
    path.write_text(json.dumps(file, indent=4))
    return path
