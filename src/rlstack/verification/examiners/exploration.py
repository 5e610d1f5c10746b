"""Explorers are examined by how soon they see held-out grid worlds."""

from __future__ import annotations

from typing import Any

from rlstack.robots import RobotSpec
from rlstack.verification.examiner import Marks
from rlstack.verification.exploration import explore
from rlstack.verification.runner import Steppable


class ExplorationExaminer:
    """See :class:`rlstack.verification.examiner.Examiner`."""

    def __init__(self, task: Any, robot: RobotSpec, episodes: int, seed: int) -> None:
        self._expedition = task.expedition
        self._sites = task.expedition.held_out(seed, episodes)

    def examine(self, policy: Steppable) -> Marks:
        """Return how soon ``policy`` saw the sites: rank is by the mean of the coverage over half of the time."""
        explored = explore(policy, self._expedition, self._sites)
        half = explored.normalized().coverage[:, : self._expedition.steps // 2]
        figures = {
            "episodes": float(len(self._sites)),
            "success": float(explored.done.mean()),
            "crashed": float(explored.crashed.mean()),
            "steps_to_90": float(explored.time_beyond(0.9).mean()),
            "steps_to_95": float(explored.time_beyond(0.95).mean()),
            "mean_coverage": float(half.mean()),
        }
        return Marks(figures["success"], (figures["mean_coverage"],), figures)


EXAMINER = ExplorationExaminer
