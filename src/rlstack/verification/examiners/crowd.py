"""base_crowd is examined by its own scenes, drawn from another seed; not the published test episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.verification.crowds import drive_among_people
from rlstack.verification.examiner import Marks
from rlstack.verification.runner import Steppable

_APART = 7_000_000
"""Added to the seed: training draws its scenes from small ones."""


class CrowdExaminer:
    """See :class:`rlstack.verification.examiner.Examiner`."""

    def __init__(self, task: Any, robot: WheeledBase, episodes: int, seed: int) -> None:
        self._task, self._robot, self._seed = task, robot, seed
        self._scenes = task.draw_scenes(np.random.default_rng(_APART + seed), episodes, robot)

    def examine(self, policy: Steppable) -> Marks:
        """Return how ``policy`` drove."""
        task = self._task
        driven = drive_among_people(
            policy,
            self._scenes,
            self._robot,
            rate_hz=task.rate_hz,
            arrival_m=task.arrival_m,
            limit_s=task.episode_s,
            name="policy",
            tracked=task.tracked,
            seed=self._seed,
        )
        figures = driven.figures()
        return Marks(figures["arrived"], (round(figures["arrived"], 3), -figures["time_s"]), figures)


EXAMINER = CrowdExaminer
