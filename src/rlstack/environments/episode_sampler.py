"""Samples one robot's episodes from its own generator, so that they do not depend on other robots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch.layout import pack_parameters, pack_state
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.step import NOISE_WIDTH

AHEAD = 30
"""Episodes drawn at a time: drawing one takes nearly as long as drawing all. Tasks split kinds of paths into tenths and
thirds."""

NOISE_AHEAD = 128
"""Number of observations whose noise is drawn at a time."""

_NOISE_STREAM = 0x0B5E


@dataclass(frozen=True)
class Episode:
    """One robot's episode.

    Args:
        state: Start state by name, (1, width), velocities in the world frame.
        perturbation: Perturbation of one robot.
        state_row: (STATE_WIDTH,) start state for kernels.
        parameter_row: (PARAMETER_WIDTH,) parameters for kernels, without further physics models.
        path: (samples, 3) m at the control rate, if the task has one.
    """

    state: dict[str, NDArray[np.float64]]
    perturbation: Perturbation
    state_row: NDArray[np.float32]
    parameter_row: NDArray[np.float32]
    path: NDArray[np.float32] | None

    def starting(self, state: dict[str, NDArray[np.float64]]) -> Episode:
        """Return the same episode with another start state, (1, width) by name."""
        return replace(self, state=state, state_row=pack_state(state, 1)[0])


class EpisodeSampler:
    """Draws one robot's episodes, some ahead.

    Args:
        task: The task.
        robot: The quadrotor.
        random: Generator of the episodes.
        seed: Seed of the noise.
    """

    def __init__(self, task: Any, robot: Quadrotor, random: np.random.Generator, seed: int) -> None:
        self._task, self._robot, self._random = task, robot, random
        self._noise_random = np.random.default_rng([seed, _NOISE_STREAM])
        self._next = AHEAD
        self._has_paths = bool(task.path_window)

    def draw(self) -> Episode:
        """Return the next episode."""
        if self._next == AHEAD:
            self._scenarios = drawn = self._task.sample(self._random, AHEAD, self._robot)
            self._states = pack_state(drawn.state, AHEAD)
            self._parameters = pack_parameters(self._robot, drawn.perturbation)
            if self._has_paths:
                points = self._task.sample_paths(self._random, AHEAD, self._robot).position
                self._paths = points[self._random.permutation(AHEAD)].astype(np.float32)
            self._next = 0
        k, self._next = self._next, self._next + 1
        one = slice(k, k + 1)
        return Episode(
            {name: array[one] for name, array in self._scenarios.state.items()},
            self._scenarios.perturbation.take(one),
            self._states[k],
            self._parameters[k],
            self._paths[k] if self._has_paths else None,
        )

    def noise(self) -> NDArray[np.float32]:
        """Return unit normals (NOISE_AHEAD, NOISE_WIDTH) for as many observations."""
        return self._noise_random.standard_normal((NOISE_AHEAD, NOISE_WIDTH), dtype=np.float32)
