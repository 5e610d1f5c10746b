"""Verification of instructed tasks on a table: seen and unseen words, and sentences that must not lead to success."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.kinds.manipulator.verification import VERIFIED, ManipulationVerification
from rlstack.sim.vector import BATCH
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.manipulator.table_task import TableTask
from rlstack.tasks.manipulator.trials import ArmTrials
from rlstack.verification.manipulation_score import score_arm
from rlstack.verification.manipulation_trials import held_out
from rlstack.verification.schedule import Counts, Seconds
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan
from rlstack.verification.trial_records import ManipulationRecord

MISLED = 0.1
"""Largest success rate under a sentence that asks for something else."""

UNSEEN, BLANK, SWAPPED = "unseen words", "no instruction", "another instruction"
"""Columns of the batch simulator beside the one with sentences of training."""


class TableVerification(ManipulationVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    counts = Counts(batch=200, engines=20, topics=20, topics_elsewhere=10, reality=30)
    thorough = Counts(batch=500, engines=100, topics=40, reality=200)
    seconds = Seconds(batch=0.2, engines=1.0, topics=1.5, reality=40.0)
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

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return the column of sentences as in training and, in the batch simulator, those of others."""
        plans = super().columns(simulator)
        if simulator != BATCH:
            return plans
        count = len(plans[0].trials)
        guessed, misled = (
            Bounds(at_most={"success": share}, episodes=min(count, self.task.bounds.episodes))
            for share in (self.task.guessed, MISLED)
        )
        silent = replace(self.trials, instruction=np.zeros_like(self.trials.instruction))
        for name, trials, bounds in (
            (UNSEEN, self._drawn(replace(self.task, words="held_out")), self.task.bounds),
            (BLANK, silent, guessed),
            (SWAPPED, self._drawn(replace(self.task, instruction="swapped")), misled),
        ):
            plans.append(self.column(f"{BATCH}, {name}", simulator, trials, bounds, count))
        return plans

    def score(self, record: ManipulationRecord, baselines: Any) -> Score:
        """Return the figures of the trials, without a baseline."""
        task = self.task
        last = f"for the last {task.hold_s:g} s of {task.episode_s:g} s"
        done = f"{task.moved.replace('_', ' ')} within {task.tolerance_m:g} m of what the sentence means {last}"
        return score_arm(record, done, lost=f"that moved another block by more than {task.disturbed_m:g} m")

    def _drawn(self, task: TableTask) -> ArmTrials:
        return held_out(task, self.robot, len(self.trials), VERIFIED + self.request.seed)


VERIFICATION = TableVerification
