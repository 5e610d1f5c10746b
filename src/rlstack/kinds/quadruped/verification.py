"""Quadrupeds are verified by standing through held-out trials, in every engine and through the deployed nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.kinds.quadruped.verification_run import StandRecord, stand_in_batch, stand_in_parallel
from rlstack.policies import Contract
from rlstack.tasks.core.settings import in_words, own_settings, trained_task
from rlstack.tasks.quadruped.scene import StandTrials, draw_trials
from rlstack.verification.evaluator import Evaluation
from rlstack.verification.scores import (
    Figure,
    Score,
    guard_figures,
    mean,
    percentile,
    share,
    time_figures,
)
from rlstack.verification.task_verification import ColumnPlan, Counts, Request, TaskVerification

_HELD_OUT, _VERIFIED = 8_000_000, 1_000_000
"""Added to the seed: training draws from small ones, and no run chose its best policy by what verifies it."""

POSTURE = "posture"
"""The baseline: joints held at the standing posture."""


class StandVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "lost", "height_error_m", "tilt_rad", "intervened", "latency_p99_ms")
    counts = Counts(batch=500, engines=100, topics=20)
    description = (
        "Starts, payloads and pushes that no training drew, and by which no run's best policy was chosen; the first are"
        " the same in every column. Signals have the task's noise. The batch simulator is many worlds in MuJoCo at 200"
        " steps a second; the engines take their own. Over topics the guard is between, with the robot file's limits."
        " The baseline holds the joints at the standing posture."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.no_drivers()
        self.robot: Quadruped = request.robot  # type: ignore[assignment]  # the policy is for its kind
        self.task = stand_task(request.loaded.contract, request.given)
        self.baselines = (POSTURE,)
        self._settings = own_settings(self.task)
        self._drawn = self.draw_evaluation(
            self.task, self.robot, request.episodes or self.counts.most, _VERIFIED + request.seed
        )

    @staticmethod
    def draw_evaluation(task: Any, robot: Quadruped, episodes: int, seed: int) -> StandTrials:
        """Return held-out trials."""
        return draw_trials(task, robot, np.random.default_rng(_HELD_OUT + seed), episodes)

    @staticmethod
    def evaluate(policy: Any, trials: StandTrials, task: Any, robot: Quadruped, seed: int) -> Evaluation:
        """Return how ``policy`` did in the batch simulator: rank is by success, then by the error of the height."""
        record = stand_in_batch(policy, task, robot, trials, seed=seed)
        success, error = float(record.success.mean()), float(np.mean(record.height_error_m))
        figures = {"episodes": float(len(record)), "success": success, "lost": float(record.lost.mean())}
        return Evaluation(success, (round(success, 3), -error), {**figures, "height_error_m": round(error, 5)})

    @property
    def trials(self) -> StandTrials:
        """Held-out trials."""
        return self._drawn

    def take(self, trials: StandTrials, count: int) -> StandTrials:
        """Return the first trials."""
        return trials.take(np.arange(min(count, len(trials))))

    def run(self, plan: ColumnPlan, baseline: str | None) -> StandRecord:
        """Return trials in process."""
        request, shown = self.request, self.request.shown(plan.name)
        by = self.task, self.robot, plan.trials, plan.simulator
        found = stand_in_parallel(None if baseline else request.policy, *by, seed=request.seed, on_progress=shown)
        return replace(found, driver=baseline or request.name)

    def topics_runner(self) -> tuple[Any, dict[str, Any]]:
        """Return what does trials through the policy and guard nodes."""
        from rlstack.kinds.quadruped.verification_run import stand_over_topics

        return stand_over_topics, {"task": self.task}

    def score(self, record: StandRecord, baselines: Mapping[str, Any]) -> Score:
        """Return the figures of trials."""
        task = self.task
        done = (
            f"for the last {task.judged_s:g} s at {self.robot.standing_height_m:g} m within {task.tolerance_m:g} m,"
            f" level within {task.tolerance_rad:g} rad, and never fallen"
        )
        stood = ~record.lost
        figures = (
            Figure("episodes", "Trials", "count", "Number of trials.", len(record)),
            share("success", "Success", f"Share of the trials that succeed: {done}.", record.success, interval=True),
            share("lost", "Fallen", "Share of the trials in which it fell.", record.lost),
            Figure(
                "height_error_m",
                "Height error",
                "m",
                "Mean over the trials without a fall of the largest error of the trunk's height while judged.",
                mean(record.height_error_m[stood]),
            ),
            Figure(
                "tilt_rad",
                "Tilt, 95th percentile",
                "rad",
                "Of the trials without a fall the 95th percentile of the largest tilt while judged.",
                percentile(record.tilt_rad[stood], 95.0) if stood.any() else None,
            ),
            *guard_figures("trials", record.interventions),
            *time_figures("trials", record.latency_s, record.wall_s),
        )
        return Score(figures=figures, settings={"done": done}, compared=("success", "height_error_m"))

    def describe(self, plan: ColumnPlan, record: StandRecord) -> str:
        """Return what was tried."""
        return f"the first {len(record)} trials of {self.task.episode_s:g} s"

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the settings that the policy was trained with and that are not the usual ones."""
        return in_words(self._settings), {"settings": {name: mine for name, (mine, _) in self._settings.items()}}


def stand_task(contract: Contract, where: str) -> Any:
    """Return a policy's task as it was trained on it.

    Raises:
        UserError: Its trials are not those of standing.
    """
    task = trained_task(contract, where)
    if not hasattr(task, "stands"):
        raise UserError(f"'{contract.task}' is not a task of standing; there is: quadruped_stand.")
    return task


VERIFICATION = StandVerification
