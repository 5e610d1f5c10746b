"""The robot's poses of the last moments, to place what a sensor measured at its own time."""

from __future__ import annotations

from collections import deque

from rlstack.guard.observation import Observation

KEPT_S = 2.0
"""How long poses are kept: longer than a scan or a picture takes to arrive."""


class PoseHistory:
    """Observations of the last :data:`KEPT_S`, by their stamps."""

    def __init__(self) -> None:
        self._seen: deque[Observation] = deque()

    def __bool__(self) -> bool:
        return bool(self._seen)

    @property
    def newest_s(self) -> float:
        """Stamp of the newest one, s; there must be one."""
        return self._seen[-1].stamp_s

    def forget(self) -> None:
        """Start anew, after a jump of time or place."""
        self._seen.clear()

    def add(self, seen: Observation) -> None:
        """Add an observation; one that is not newer than the last starts anew."""
        if self._seen and seen.stamp_s <= self.newest_s:
            self._seen.clear()
        self._seen.append(seen)
        while self._seen[0].stamp_s < seen.stamp_s - KEPT_S:
            self._seen.popleft()

    def nearest(self, stamp_s: float) -> Observation:
        """Return the observation nearest to a time, s; there must be one."""
        return min(self._seen, key=lambda seen: abs(seen.stamp_s - stamp_s))
