"""Verification of quadrupeds by held-out standing trials, in every engine and over topics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rlstack.bringup.episode_runner import JointedRecorder
from rlstack.errors import UserError
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.kinds.quadruped.verification_trials import HoldPosture, StandLog, StandRecord, StandSimulator, stand
from rlstack.policies import Contract
from rlstack.sim.vector import BATCH
from rlstack.tasks.core.trained_task import changed_settings, trained_task
from rlstack.tasks.quadruped.scene import StandTrials, draw_trials
from rlstack.verification.jointed_recordings import SIMULATOR, column_in_engine, record_in_engine, replay_jointed
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts
from rlstack.verification.scores import (
    Figure,
    Score,
    mean_figure,
    percentile,
    run_figures,
    share,
)
from rlstack.verification.task_verification import ColumnPlan, Records, TaskVerification
from rlstack.verification.training_evaluation import Evaluation
from rlstack.view.recording import Recording, ReplayedTrial, choose

_HELD_OUT, _VERIFIED = 8_000_000, 1_000_000
"""Added to the seed: training draws from small ones, and these trials differ from those that select the best policy."""

POSTURE = "posture"
"""The baseline: joints held at the standing posture."""


_APART_M = 1.0
"""Distance at which robots are drawn beside each other."""

LEAST_IN_ENGINES = 20
"""Trials that justify another process in an engine; the batch simulator has its own threads."""


class StandRecorder(JointedRecorder):
    """Records the trunk; an episode ends with a fall, or at its time limit."""

    def __init__(self, name: str, robot: Quadruped, trials: StandTrials, *, task: Any, seed: int, first: int) -> None:
        simulator = StandSimulator(name, task, robot, trials, seed, first)
        super().__init__(simulator, StandLog(task, robot, len(trials)))


class StandVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "lost", "height_error_m", "tilt_rad", "drift_m", "intervened", "latency_p99_ms")
    evaluated = ("episodes", "success", "lost", "height_error_m")
    counts = Counts(batch=500, engines=40, topics=20)
    thorough = Counts(batch=500, engines=100, topics=20)
    description = (
        "Starts, payloads and pushes that are used neither for training nor to choose a run's best policy; all columns"
        " share the first ones. Signals have the task's noise. The batch simulator runs many MuJoCo worlds at 200 steps"
        " per second; the engines use their own rate. Over topics commands pass the guard with the robot file's limits."
        " The baseline holds the joints at the standing posture."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.no_drivers()
        self.robot: Quadruped = request.robot  # type: ignore[assignment]  # the policy is for its kind
        self.task = stand_task(request.loaded.contract, request.given)
        self.baselines = (POSTURE,)
        self.trials = self.draw_evaluation(
            self.task, self.robot, request.episodes or self.counts.most, _VERIFIED + request.seed
        )

    @staticmethod
    def draw_evaluation(task: Any, robot: Quadruped, episodes: int, seed: int) -> StandTrials:
        """Return held-out trials."""
        return draw_trials(task, robot, np.random.default_rng(_HELD_OUT + seed), episodes)

    @staticmethod
    def evaluate(policy: Any, trials: StandTrials, task: Any, robot: Quadruped, seed: int) -> Evaluation:
        """Return the policy's results in the batch simulator, ranked by success, then by height error."""
        record = stand(policy, task, robot, trials, seed=seed, batch_size=len(trials))
        success, error = float(record.success.mean()), float(np.mean(record.height_error_m))
        figures = {"episodes": float(len(record)), "success": success, "lost": float(record.lost.mean())}
        return Evaluation(success, (round(success, 3), -error), {**figures, "height_error_m": round(error, 5)})

    def process_runner(self, plan: ColumnPlan, baseline: str | None) -> tuple[Any, dict[str, Any]]:
        """Return the function that runs standing trials, and its options."""
        least = len(plan.trials) + 1 if plan.simulator == BATCH else LEAST_IN_ENGINES
        posture = {"make_driver": partial(HoldPosture, self.robot)} if baseline else {}
        return stand, {"task": self.task, "least": least, **posture}

    def topics_recorder(self) -> tuple[Any, dict[str, Any]]:
        """Return the recorder of trials through the policy and guard nodes, and its options."""
        return StandRecorder, {"task": self.task}

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
            share("lost", "Fallen", "Share of the trials with a fall.", record.lost),
            mean_figure(
                "height_error_m",
                "Height error",
                "m",
                "Largest height error of the trunk while judged; mean over the trials without a fall.",
                record.height_error_m[stood],
            ),
            Figure(
                "tilt_rad",
                "Tilt, 95th percentile",
                "rad",
                "Largest tilt while judged; 95th percentile over the trials without a fall.",
                percentile(record.tilt_rad[stood], 95.0) if stood.any() else None,
            ),
            Figure(
                "drift_m",
                "Drift, 95th percentile",
                "m",
                "Of the trials without a fall the 95th percentile of the largest horizontal distance from where the"
                " trunk was when judging began.",
                percentile(record.drift_m[stood], 95.0) if stood.any() else None,
            ),
            *run_figures("trials", record),
        )
        return Score(figures=figures, settings={"done": done}, compared=("success", "height_error_m"))

    def replay(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[ReplayedTrial]:
        """Run trials again in an engine, beside the baseline."""
        name = column_in_engine(records)
        tried: Any = records[name][0]
        trials, seed = plans[name].trials, self.request.seed
        drivers = {self.request.name: self.request.loaded, POSTURE: HoldPosture(self.robot)}

        def run(number: int) -> list[Recording]:
            one = trials.take(np.array([number]))
            return [_recorded(d, self.task, self.robot, one, seed, number, who) for who, d in drivers.items()]

        return replay_jointed(tried, choose(tried.success, tried.lost, tried.height_error_m), run, _APART_M)

    @staticmethod
    def record(policy: Any, trials: StandTrials, task: Any, robot: Quadruped, seed: int) -> list[Recording]:
        """Run a policy in an engine and return recordings."""
        every = range(len(trials))
        return [_recorded(policy, task, robot, trials.take(np.array([k])), seed, k, "policy") for k in every]

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the settings of the policy's training that differ from the defaults."""
        return changed_settings(self.task)


def _recorded(
    driver: Any, task: Any, robot: Quadruped, trial: StandTrials, seed: int, number: int, name: str
) -> Recording:
    """Run one trial, with the noise that it has as the ``number``-th one, and return its recording."""
    simulator = StandSimulator(SIMULATOR, task, robot, trial, seed, number)
    return record_in_engine(driver, simulator, StandLog(task, robot, 1), name)


def stand_task(contract: Contract, where: str) -> Any:
    """Return the standing task that a policy was trained on.

    Raises:
        UserError: It is not a standing task.
    """
    task = trained_task(contract, where)
    if not hasattr(task, "stands"):
        raise UserError(f"'{contract.task}' is not a standing task; use quadruped_stand.")
    return task


VERIFICATION = StandVerification
