"""Columns of every instructed task's verification: unseen words, and sentences that must not lead to success."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.sim.vector import BATCH
from rlstack.tasks.bounds import Bounds
from rlstack.verification.task_verification import ColumnPlan, TaskVerification

MISLED = 0.1
"""Largest success rate under a sentence that asks for something else."""

UNSEEN, BLANK, SWAPPED = "unseen words", "no instruction", "another instruction"
"""Columns of the batch simulator beside the one with sentences of training."""

VERIFIED = 1_000_000
"""Added to the seed, so that these trials differ from those that select a run's best policy."""


class InstructedVerification(TaskVerification):
    """Adds these columns to a verification; the task has ``words``, ``instruction`` and ``guessed``."""

    @abstractmethod
    def drawn(self, task: Any) -> Any:
        """Return as many trials as the columns share, of a task with other words or instructions."""

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
            (UNSEEN, self.drawn(replace(self.task, words="held_out")), self.task.bounds),
            (BLANK, silent, guessed),
            (SWAPPED, self.drawn(replace(self.task, instruction="swapped")), misled),
        ):
            plans.append(self.column(f"{BATCH}, {name}", simulator, trials, bounds, count))
        return plans
