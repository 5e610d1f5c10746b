"""Arms are examined by held-out trials in MuJoCo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.verification.examiner import Marks
from rlstack.verification.manipulation import held_out, manipulate
from rlstack.verification.runner import Steppable


class ArmExaminer:
    """See :class:`rlstack.verification.examiner.Examiner`."""

    def __init__(self, task: Any, robot: Manipulator, episodes: int, seed: int) -> None:
        self._task, self._robot, self._seed = task, robot, seed
        self._trials = held_out(task, robot, episodes, seed)

    @staticmethod
    def describe(task: Any, figures: Mapping[str, float]) -> str:
        """Return how a policy did."""
        told = (
            f"Of {figures['episodes']:.0f} held-out trials {100 * figures['success']:.1f}% come within"
            f" {task.tolerance_m:g} m of the goal and stay for {task.hold_s:g} s; {100 * figures['lost']:.1f}% are lost"
        )
        if "time_s" in figures:
            told += f"; those that succeed take {figures['time_s']:.2f} s"
        return told + "."

    def examine(self, policy: Steppable) -> Marks:
        """Return how ``policy`` did: rank is by success, then by how soon."""
        done = manipulate(policy, self._task, self._robot, self._trials, seed=self._seed)
        figures = done.figures()
        late = figures.get("time_s", self._task.episode_s)
        return Marks(figures["success"], (round(figures["success"], 3), -late), figures)


EXAMINER = ArmExaminer
