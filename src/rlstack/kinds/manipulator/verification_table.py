"""Verification of instructed tasks on a table: seen and unseen words, and sentences that must not lead to success."""

from __future__ import annotations

from typing import Any

from rlstack.kinds.manipulator.verification import ManipulationVerification
from rlstack.tasks.manipulator.table_task import TableTask
from rlstack.tasks.manipulator.trials import ArmTrials
from rlstack.verification.instructed import VERIFIED, InstructedVerification
from rlstack.verification.manipulation_score import score_arm
from rlstack.verification.manipulation_trials import held_out
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts, Seconds
from rlstack.verification.scores import Score
from rlstack.verification.trial_records import ManipulationRecord

_WITHIN = 0.05
"""How much less success than a column's bound is enough within a margin."""


class TableVerification(InstructedVerification, ManipulationVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    counts = Counts(batch=200, engines=20, topics=20, topics_elsewhere=10, reality=30)
    thorough = Counts(batch=500, engines=100, topics=40, reality=200)
    seconds = Seconds(batch=0.09, engines=1.3, topics=2.0, reality=7.0)
    description = (
        "Starts, blocks and sentences that are used neither for training nor to choose a run's best policy; all columns"
        " share the first ones, but for the unseen words: sentences of other forms, for blocks whose colour and shape"
        " no sentence of training combines. Without an instruction, and with one for another block and in another"
        " direction, a policy that listens must fail: these columns bound its success from above. Joint states have the"
        " task's noise; images are those of the task's camera, with its light and colours in the batch simulator and"
        " the engines' own elsewhere."
    )
    task: TableTask
    trained: TableTask

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.enough = self.task.bounds.at_least["success"] - _WITHIN

    def score(self, record: ManipulationRecord, baselines: Any) -> Score:
        """Return the figures of the trials, without a baseline."""
        task = self.task
        last = f"for the last {task.hold_s:g} s of {task.episode_s:g} s"
        done = f"{task.moved.replace('_', ' ')} within {task.tolerance_m:g} m of what the sentence means {last}"
        return score_arm(record, done, lost=f"that moved another block by more than {task.disturbed_m:g} m")

    def drawn(self, task: TableTask) -> ArmTrials:
        """Return as many trials as the columns share, of a task with other words or instructions."""
        return held_out(task, self.robot, len(self.trials), VERIFIED + self.request.seed)


VERIFICATION = TableVerification
