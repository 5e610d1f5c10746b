"""Progress checker for bases driven by policies, which do not report that they are stuck."""

from __future__ import annotations

import math

from rlstack.arrays import Array
from rlstack.interfaces.messages import NANOSECONDS

_BETTER_M = 0.05
"""A smaller decrease of the distance is no progress."""

_SAME_M = 0.01
"""A goal that moves by less counts as the same."""


class ProgressChecker:
    """Checks from positions and goals whether the base makes progress.

    Args:
        tolerance_m: The goal counts as reached within this.
        patience_s: After this long without progress, the goal counts as out of reach.
    """

    def __init__(self, tolerance_m: float, patience_s: float) -> None:
        self._tolerance_m, self._patience_s = tolerance_m, patience_s
        self._goal = (math.nan, math.nan)
        self._best_m, self._since_ns, self._left_m, self._now_ns = math.inf, 0, math.nan, 0

    def update(self, stamp_ns: int, position: Array, goal: Array) -> None:
        """Update the positions of the base and its goal, (3,) m in ``odom`` both."""
        wanted = float(goal[0]), float(goal[1])
        if not math.dist(wanted, self._goal) < _SAME_M or stamp_ns < self._now_ns:
            self._goal, self._best_m = wanted, math.inf
        self._left_m, self._now_ns = math.dist(wanted, (float(position[0]), float(position[1]))), stamp_ns
        if self._left_m < self._best_m - _BETTER_M or self._left_m < self._tolerance_m:
            self._best_m, self._since_ns = min(self._left_m, self._best_m), stamp_ns

    @property
    def status(self) -> str:
        """``no goal``, ``arrived``, ``driving`` or ``no way found``."""
        if math.isnan(self._left_m):
            return "no goal"
        if self._left_m < self._tolerance_m:
            return "arrived"
        return "no way found" if self.waited_s > self._patience_s else "driving"

    @property
    def waited_s(self) -> float:
        """Time without progress."""
        return (self._now_ns - self._since_ns) / NANOSECONDS

    @property
    def warning(self) -> str:
        """A sentence if the goal is out of reach; otherwise empty."""
        if self.status != "no way found":
            return ""
        x, y = self._goal
        return f"the goal at {x:.2f}, {y:.2f} m has come no nearer than {self._best_m:.2f} m for {self.waited_s:.0f} s"
