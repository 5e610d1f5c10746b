"""Where a robot's goals may be: within the limits that its guard enforces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlstack.arrays import Array


@dataclass(frozen=True, kw_only=True)
class GoalLimits:
    """A box that goals must be in.

    Args:
        name: ``geofence`` or ``workspace``: its limits in the robot file are NAME_min_m and NAME_max_m.
        frame: What its corners are given in.
        low_m: (2,) or (3,) lower corner, m.
        high_m: Upper corner.
        floor_m: Height that goals of robots that fly must not be below.
    """

    name: str
    frame: str
    low_m: Sequence[float]
    high_m: Sequence[float]
    floor_m: float = -math.inf

    def changed(self, low_m: Sequence[float], high_m: Sequence[float], floor_m: float | None = None) -> GoalLimits:
        """Return the limits with other corners where any are given, and another floor if this one has one."""
        floor = self.floor_m if floor_m is None or math.isinf(self.floor_m) else floor_m
        return replace(self, low_m=low_m or self.low_m, high_m=high_m or self.high_m, floor_m=floor)

    def nearest(self, position: Array) -> Array:
        """Return the allowed position (..., 3) next to ``position`` (..., 3), m."""
        found = np.array(position, dtype=float)
        axes = len(self.low_m)
        found[..., :axes] = np.clip(found[..., :axes], self.low_m, self.high_m)
        if axes == 3:
            found[..., 2] = np.maximum(found[..., 2], min(self.floor_m, self.high_m[2]))
        return found

    def contains(self, position: Array) -> bool:
        """Return whether all positions (..., 3), m, are allowed."""
        axes = len(self.low_m)
        return bool(np.array_equal(self.nearest(position)[..., :axes], np.asarray(position)[..., :axes]))

    def refusal(self, position: Array) -> str:
        """Return why a position (3,), m, is no goal, with the nearest that is; empty if it is one."""
        if self.contains(position):
            return ""
        near, axes = self.nearest(position), len(self.low_m)
        inside = np.clip(np.asarray(position, dtype=float)[:axes], self.low_m, self.high_m)
        if axes == 3 and np.array_equal(inside, np.asarray(position)):
            why = f"it is below the floor, which is at {self.floor_m:g} m"
        else:
            why = f"it is outside the {self.name} from {_shown(self.low_m)} to {_shown(self.high_m)}, m in {self.frame}"
        return f"{why}; the nearest goal inside is {_shown(near[:axes])}"


def _shown(place: Sequence[float] | Array) -> str:
    return f"[{', '.join(f'{x:.4g}' for x in place)}]"
