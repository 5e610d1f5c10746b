"""Episodes of one robot, drawn ahead from a generator of its own, so that robots flown together do as they would alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.robots import Quadrotor
from rlstack.tasks.scenario import Scenario
from rlstack.tasks.step import NOISE_WIDTH

AHEAD = 30
"""Episodes drawn at a time: drawing one takes nearly as long as drawing them all. Tasks deal kinds of paths out over
tens and thirds."""

NOISE_AHEAD = 128
"""Observations whose noise is drawn at a time."""

_NOISE_STREAM = 0x0B5E


class Deck:
    """What one robot will meet.

    Args:
        task: Draws it.
        robot: What flies.
        random: Of the episodes.
        seed: Of the noise.
    """

    def __init__(self, task: Any, robot: Quadrotor, random: np.random.Generator, seed: int) -> None:
        self._task, self._robot, self._random = task, robot, random
        self._noise_random = np.random.default_rng([seed, _NOISE_STREAM])
        self._next = AHEAD
        self._has_paths = bool(task.path_window)

    def draw(self) -> tuple[Scenario, NDArray[np.float32] | None]:
        """Return the next episode, and its path (samples, 3) at the control rate if the task has one."""
        if self._next == AHEAD:
            self._scenarios = self._task.sample(self._random, AHEAD, self._robot)
            if self._has_paths:
                points = self._task.sample_paths(self._random, AHEAD, self._robot).position
                self._paths = points[self._random.permutation(AHEAD)].astype(np.float32)
            self._next = 0
        k, self._next = self._next, self._next + 1
        return self._scenarios.take(slice(k, k + 1)), self._paths[k] if self._has_paths else None

    def noise(self) -> NDArray[np.float32]:
        """Return unit normals (NOISE_AHEAD, NOISE_WIDTH) for as many observations."""
        return self._noise_random.standard_normal((NOISE_AHEAD, NOISE_WIDTH), dtype=np.float32)
