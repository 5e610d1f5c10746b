"""Time-stamped paths like nav_msgs/Path, for N robots at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array


@dataclass(frozen=True)
class Paths:
    """N paths of M poses each. Positions are interpolated linearly between poses, and rest before the first and after
    the last.

    Args:
        time_s: (N, M) when each pose is due, s from the episode's start, increasing along M.
        position: (N, M, 3) m, world.
        yaw: (N, M) rad, heading at each pose.
    """

    time_s: Array
    position: Array
    yaw: Array

    def __post_init__(self) -> None:
        shape = self.time_s.shape
        if len(shape) != 2 or self.position.shape != (*shape, 3) or self.yaw.shape != shape or shape[1] < 2:
            raise ValueError(f"paths of {shape}, {self.position.shape} and {self.yaw.shape}: must be (N, M >= 2)")
        if not (np.diff(self.time_s, axis=1) > 0.0).all():
            raise ValueError("time_s must increase along every path")

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def duration_s(self) -> float:
        """When the last pose of the longest path is due."""
        return float(self.time_s[:, -1].max())

    def at(self, time_s: float) -> Array:
        """Return the positions (N, 3) m that are due ``time_s`` s after the start."""
        begin, end = self.time_s[:, :-1], self.time_s[:, 1:]
        share = np.clip((time_s - begin) / (end - begin), 0.0, 1.0)
        return np.asarray(self.position[:, 0] + (share[..., None] * np.diff(self.position, axis=1)).sum(axis=1))

    def over(self, time_s: Array) -> Array:
        """Return the positions (T, N, 3) m that are due at each of ``time_s`` (T,) s after the start."""
        due = np.empty((len(time_s), len(self), 3))
        for n, (times, position) in enumerate(zip(self.time_s, self.position)):
            for axis in range(3):
                due[:, n, axis] = np.interp(time_s, times, position[:, axis])
        return due

    def take(self, index: NDArray[np.integer] | slice) -> Paths:
        """Return the paths at ``index``."""
        return Paths(self.time_s[index], self.position[index], self.yaw[index])

    def shifted(self, offset: Array) -> Paths:
        """Return the same paths moved by ``offset`` (3,) m."""
        return replace(self, position=self.position + offset)
