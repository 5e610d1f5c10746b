"""Quadrotors are examined by flying held-out starts in the batch simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.verification.examiner import Marks
from rlstack.verification.metrics import Score, score
from rlstack.verification.rollout import rollout
from rlstack.verification.runner import Steppable

_FIGURES = ("episodes", "success", "within_0_1", "lost", "error_m")


class QuadrotorExaminer:
    """See :class:`rlstack.verification.examiner.Examiner`."""

    def __init__(self, task: Any, robot: Quadrotor, episodes: int, seed: int) -> None:
        self._criteria, self._robot, self._seed = task.criteria, robot, seed
        self._held_out = task.validation(np.random.default_rng(seed), episodes, robot)

    @staticmethod
    def describe(task: Any, figures: Mapping[str, float]) -> str:
        """Return how a policy flew from held-out starts."""
        criteria = task.criteria
        told = (
            f"Of {figures['episodes']:.0f} held-out flights {100 * figures['success']:.1f}% stay within"
            f" {criteria.radius_m:g} m of {'the path' if getattr(task, 'path_window', ()) else 'the goal'}"
            f" from second {criteria.from_s:g} to second {criteria.to_s:g}, {100 * figures['within_0_1']:.1f}% within"
            f" 0.1 m, {100 * figures['lost']:.1f}% are lost"
        )
        if "error_m" in figures:
            told += f"; the median of their mean distances is {figures['error_m']:.3f} m"
        return told + "."

    def examine(self, policy: Steppable) -> Marks:
        """Return how ``policy`` flew."""
        flown = rollout(policy, self._held_out, self._robot, self._criteria.duration_s, noise_seed=self._seed)
        figures = score(flown, self._criteria)
        kept = {name: getattr(figures, name) for name in _FIGURES}
        # all lost: there is no error
        finite = {name: figure for name, figure in kept.items() if math.isfinite(figure)}
        return Marks(figures.success, _rank(figures), finite)


def _rank(figures: Score) -> tuple[float, ...]:
    # staying close counts first and a loss counts as much as a success; then how close
    return (round(figures.success - figures.lost, 3), round(figures.within_0_1, 3), -figures.error_m)


EXAMINER = QuadrotorExaminer
