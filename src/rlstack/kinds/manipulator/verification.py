"""Verification of manipulators by held-out trials: vectorised, in every engine in process, and over topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies import Contract
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.tasks.core.settings import in_words, own_settings, trained_task
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification.arm_cell import world_of
from rlstack.verification.arm_plots import draw_trials
from rlstack.verification.arm_score import score_arm
from rlstack.verification.drawing import Plot
from rlstack.verification.evaluator import Evaluation
from rlstack.verification.manipulation import held_out, manipulate
from rlstack.verification.records import ManipulationRecord
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Counts, Records, Request, TaskVerification, held_by

_VERIFIED = 1_000_000
"""Added to the seed, so that these trials differ from those that select a run's best policy."""


class ManipulationVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "lost", "time_s", "error_m", "error_p95_m", "intervened", "latency_p99_ms")
    counts = Counts(batch=500, engines=100, topics=40)
    description = (
        "Starts, goals and objects that no training drew, and by which no run's best policy was chosen; the first are"
        " the same in every column. Joint states, and the object's pose, have the task's noise. The batch simulator is"
        " many worlds in MuJoCo, the arm's links as capsules and boxes; the engines have the links' meshes, and joints"
        " are commanded at the robot's control rate. Over topics the guard is between, with the robot file's limits."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.no_drivers()
        assert isinstance(request.robot, Manipulator)
        self.robot: Manipulator = request.robot
        self.task: ArmTask = task_of(request.loaded.contract, request.given)
        self._settings = own_settings(self.task)
        most = request.episodes or self.counts.most
        self._drawn = held_out(self.task, self.robot, most, _VERIFIED + request.seed)

    @staticmethod
    def draw_evaluation(task: Any, robot: Manipulator, episodes: int, seed: int) -> Trials:
        """Return held-out trials."""
        return held_out(task, robot, episodes, seed)

    @staticmethod
    def evaluate(policy: Any, trials: Trials, task: Any, robot: Manipulator, seed: int) -> Evaluation:
        """Return the policy's results in MuJoCo, ranked by success, then by time to success."""
        figures = manipulate(policy, task, robot, trials, seed=seed).figures()
        late = figures.get("time_s", task.episode_s)
        return Evaluation(figures["success"], (round(figures["success"], 3), -late), figures)

    @staticmethod
    def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
        """Summarize the policy's results."""
        told = (
            f"Of {figures['episodes']:.0f} held-out trials {100 * figures['success']:.1f}% come within"
            f" {task.tolerance_m:g} m of the goal and stay for {task.hold_s:g} s; {100 * figures['lost']:.1f}% are lost"
        )
        if "time_s" in figures:
            told += f"; those that succeed take {figures['time_s']:.2f} s"
        return told + "."

    @property
    def trials(self) -> Trials:
        """Held-out trials."""
        return self._drawn

    def take(self, trials: Trials, count: int) -> Trials:
        """Return the first trials."""
        return trials.take(np.arange(count))

    def hold(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the robot and what it handles."""
        if self.task.objects is None:
            return held_by(names, self.robot)
        try:
            world = world_of(self.task, self._drawn, 0)
        except UserError as error:
            others = {name: str(error) for name in names if name != BATCH}
            return tuple(name for name in names if name == BATCH), others
        return held_by(names, self.robot, world)

    def run(self, plan: ColumnPlan, baseline: str | None) -> ManipulationRecord:
        """Return trials in process."""
        from rlstack.kinds.manipulator.verification_run import try_in_parallel

        request, shown = self.request, self.request.shown(plan.name)
        assert request.policy is not None
        by = request.policy, self.task, self.robot, plan.trials, plan.simulator
        return try_in_parallel(*by, seed=request.seed, on_progress=shown)

    def topics_runner(self) -> tuple[Any, dict[str, Any]]:
        """Return the runner of trials through the policy and guard nodes."""
        from rlstack.kinds.manipulator.verification_run import try_over_topics

        return try_over_topics, {"task": self.task}

    def score(self, record: ManipulationRecord, baselines: Mapping[str, Any]) -> Score:
        """Return the figures of the trials, without a baseline."""
        task = self.task
        words = f"{task.moved.replace('_', ' ')} within {task.tolerance_m:g} m of the goal for {task.hold_s:g} s"
        return score_arm(record, words + ("" if task.ends else ", and still there at the end"))

    def describe(self, plan: ColumnPlan, record: ManipulationRecord) -> str:
        """Describe the trials."""
        return f"the first {len(record)} trials of {self.task.episode_s:g} s"

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the settings of the policy's training that differ from the defaults."""
        return in_words(self._settings), {"settings": {name: mine for name, (mine, _) in self._settings.items()}}

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the figures of the trials."""
        tried: dict[str, Any] = {name: record for name, (record, _) in records.items()}
        return draw_trials(tried, self.task.tolerance_m)


def task_of(contract: Contract, where: str) -> ArmTask:
    """Return the manipulation task that a policy was trained on; ``where`` names the policy's file in errors.

    Raises:
        UserError: There is no such manipulation task, or it does not have the file's settings.
    """
    if not issubclass(TASKS.load(contract.task), ArmTask):
        others = [other for other in TASKS.names() if issubclass(TASKS.load(other), ArmTask)]
        raise UserError(f"'{contract.task}' is not a manipulation task; those that are: {', '.join(others)}.")
    task: ArmTask = trained_task(contract, where)
    return task


VERIFICATION = ManipulationVerification
