"""Bases are examined by what their task says; here, by driving held-out maps in the batch simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.verification.courses import held_out_course
from rlstack.verification.drive import drive
from rlstack.verification.examiner import Marks
from rlstack.verification.runner import Steppable


class BaseExaminer:
    """See :class:`rlstack.verification.examiner.Examiner`."""

    def __init__(self, task: Any, robot: WheeledBase, episodes: int, seed: int) -> None:
        self._task, self._robot, self._seed = task, robot, seed
        self._course = held_out_course(
            robot,
            episodes,
            seed,
            kinds=task.maps.kinds,
            difficulty=task.maps.difficulty,
            fastest_m_s=task.fastest_m_s(robot),
            validation=True,
            movers=getattr(task, "moving", None),
        )

    @staticmethod
    def describe(task: Any, figures: Mapping[str, float]) -> str:
        """Return how a policy drove."""
        return (
            f"Of {figures['episodes']:.0f} held-out drives {100 * figures['success']:.1f}% come within"
            f" {task.arrival_m:g} m of the goal and {100 * figures['collided']:.1f}% hit something; those that arrive"
            f" take {figures['time_over_shortest']:.2f} times as long as the shortest way at full speed."
        )

    def examine(self, policy: Steppable) -> Marks:
        """Return how ``policy`` drove."""
        task = self._task
        driven = drive(
            policy,
            self._course,
            self._robot,
            rate_hz=task.rate_hz,
            arrival_m=task.arrival_m,
            name="policy",
            seed=self._seed,
        )
        success, hit = float(driven.success.mean()), float((driven.ending == "collided").mean())
        taken = driven.time_s[driven.success]
        straight = driven.shortest_m[driven.success] / task.fastest_m_s(self._robot)
        slow = float((taken / straight).mean()) if len(taken) else 100.0
        figures = {"episodes": len(driven), "success": success, "collided": hit, "time_over_shortest": round(slow, 3)}
        for kind in np.unique(driven.labels):
            figures[f"success_{kind}"] = round(float(driven.success[driven.labels == kind].mean()), 4)
        return Marks(success, (round(success, 3), -slow), figures)


EXAMINER = BaseExaminer
