"""Verification of tasks among landmarks, for every kind of robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.bringup.episode_runner import JointedRecorder, StillGoals
from rlstack.interfaces.instruction import decoded
from rlstack.sim.vector import BATCH
from rlstack.tasks.core.trained_task import changed_settings, trained_task
from rlstack.tasks.landmarks.task import LandmarkTask
from rlstack.tasks.landmarks.trials import LandmarkTrials
from rlstack.verification.camera_inputs import CameraInputs
from rlstack.verification.drawing import Plot
from rlstack.verification.instructed import VERIFIED, InstructedVerification
from rlstack.verification.jointed_recordings import SIMULATOR, column_in_engine, record_in_engine, replay_jointed
from rlstack.verification.landmark_plots import draw_landmark_trials
from rlstack.verification.landmark_reality import landmark_axes
from rlstack.verification.landmark_trials import LandmarkLog, LandmarkRecord, LandmarkSimulator, seek, world_of
from rlstack.verification.reality import Axis
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts, Seconds
from rlstack.verification.scores import Figure, Score, mean, run_figures, share
from rlstack.verification.task_verification import ColumnPlan, Records, supporting
from rlstack.verification.training_evaluation import Evaluation
from rlstack.view.recording import Recording, ReplayedTrial, choose

_HELD_OUT = 8_000_000
"""Added to the seed: training draws from small ones."""

_WITHIN = 0.05
"""How much less success than the task's bound is enough within a margin."""

LEAST_IN_ENGINES = 10
"""Trials that justify another process in an engine."""


class LandmarkRecorder(JointedRecorder):
    """Records the robot; an episode ends when it touches something, or at its time limit."""

    def __init__(self, name: str, robot: Any, trials: LandmarkTrials, *, task: Any, seed: int, first: int) -> None:
        goals = StillGoals(trials.place[:, 0], np.zeros(len(trials)), instruction=trials.instruction)
        simulator = LandmarkSimulator(name, task, robot, trials, seed, first)
        super().__init__(simulator, LandmarkLog(task, robot, trials), goals)


class LandmarkVerification(InstructedVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "lost", "elsewhere", "time_s", "intervened", "latency_p99_ms")
    evaluated = ("episodes", "success", "lost", "elsewhere")
    counts = Counts(batch=100, engines=20, topics=20, topics_elsewhere=10)
    thorough = Counts(batch=500, engines=100, topics=40)
    seconds = Seconds(batch=0.4, engines=2.0, topics=3.0)
    description = (
        "Rooms, starts and sentences that are used neither for training nor to choose a run's best policy; all columns"
        " share the first ones, but for the unseen words: sentences of other forms, for landmarks whose colour and"
        " shape no sentence of training combines. With a sentence that names another one, a policy that listens must"
        " fail; without one it can only guess. Odometry has the task's noise; images are those of the robot's camera,"
        " with the task's light and colours in the batch simulator and the engines' own elsewhere."
    )
    task: LandmarkTask

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.no_drivers()
        self.task = trained_task(request.loaded.contract, request.given)
        self.enough = self.task.bounds.at_least["success"] - _WITHIN
        self._most = request.episodes or self.counts.most
        self.trials = self.drawn(self.task)

    def axes(self) -> Sequence[Axis]:
        """Return the axes of the reality grid."""
        return landmark_axes(self.task)

    @staticmethod
    def draw_evaluation(task: Any, robot: Any, episodes: int, seed: int) -> LandmarkTrials:
        """Return held-out trials."""
        drawn: LandmarkTrials = task.draw(robot, np.random.default_rng(_HELD_OUT + seed), episodes)
        return drawn

    trial_world = staticmethod(world_of)

    @staticmethod
    def evaluate(policy: Any, trials: LandmarkTrials, task: Any, robot: Any, seed: int) -> Evaluation:
        """Return the policy's results, ranked by success, then by how many touch something."""
        record = seek(policy, task, robot, trials, seed=seed)
        success, lost = float(record.success.mean()), float(record.lost.mean())
        figures = {"episodes": float(len(record)), "success": success, "lost": lost}
        figures["elsewhere"] = float(record.elsewhere.mean())
        return Evaluation(success, (round(success, 3), -lost), figures)

    @staticmethod
    def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
        """Summarize the policy's results."""
        return (
            f"Of {figures['episodes']:.0f} held-out trials {100 * figures['success']:.1f}% end with {task.hold_s:g} s"
            f" at the named landmark, {100 * figures['elsewhere']:.1f}% at another one, and"
            f" {100 * figures['lost']:.1f}% touch something."
        )

    def drawn(self, task: Any) -> LandmarkTrials:
        """Return as many trials as the columns share, of a task with other words or instructions."""
        return self.draw_evaluation(task, self.robot, self._most, VERIFIED + self.request.seed)

    def supported(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the robot."""
        return supporting(names, self.robot, world_of(self.task, self.trials, 0))

    def process_runner(self, plan: ColumnPlan, baseline: str | None) -> tuple[Any, dict[str, Any]]:
        """Return the function that runs trials, and its options."""
        least = len(plan.trials) + 1 if plan.simulator == BATCH else LEAST_IN_ENGINES
        return seek, {"task": self.task, "least": least}

    def topics_recorder(self) -> tuple[Any, dict[str, Any]]:
        """Return the recorder of trials through the policy and guard nodes, and its options."""
        return LandmarkRecorder, {"task": self.task}

    def score(self, record: LandmarkRecord, baselines: Mapping[str, Any]) -> Score:
        """Return the figures of the trials, without a baseline."""
        task = self.task
        done = (
            f"within {task.arrival_m:g} m of the named landmark's surface, and slower than {task.still_m_s:g} m/s, for"
            f" the last {task.hold_s:g} s of {task.episode_s:g} s"
        )
        time_s = record.time_s[record.success]
        figures = (
            Figure("episodes", "Trials", "count", "Number of trials, each in another room.", len(record)),
            share("success", "Success", f"Share of the trials that succeed: {done}.", record.success, interval=True),
            share("lost", "Touched", "Share of the trials in which the robot touches something.", record.lost),
            share("elsewhere", "Elsewhere", "Share of the trials that end at another landmark.", record.elsewhere),
            Figure("time_s", "Time", "s", "Mean time until that, over the trials that succeed.", mean(time_s)),
            *run_figures("trials", record),
        )
        return Score(figures=figures, settings={"done": done}, compared=("success",))

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the plots of the trials."""
        tried: dict[str, Any] = {name: (record, plans[name].trials) for name, (record, _) in records.items()}
        return draw_landmark_trials(tried, self.task, self.task.radius_m(self.robot))

    def replay(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[ReplayedTrial]:
        """Run trials again in an engine."""
        name = column_in_engine(records)
        tried: Any = records[name][0]
        policy, trials, seed = self.request.loaded, plans[name].trials, self.request.seed

        def run(number: int) -> list[Recording]:
            one = trials.take(np.array([number]))
            return [_recorded(policy, self.task, self.robot, one, seed, number, self.request.name)]

        return replay_jointed(tried, choose(tried.success, tried.lost, tried.time_s), run, 0.0)

    @staticmethod
    def record(policy: Any, trials: LandmarkTrials, task: Any, robot: Any, seed: int) -> list[Recording]:
        """Run a policy in an engine and return recordings."""
        every = range(len(trials))
        return [_recorded(policy, task, robot, trials.take(np.array([k])), seed, k, "policy") for k in every]

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the settings of the policy's training that differ from the defaults."""
        return changed_settings(self.task)


def _recorded(
    driver: Any, task: Any, robot: Any, trial: LandmarkTrials, seed: int, number: int, name: str
) -> Recording:
    """Run one trial, with the noise that it has as the ``number``-th one, and return its recording."""
    engine, log = LandmarkSimulator(SIMULATOR, task, robot, trial, seed, number), LandmarkLog(task, robot, trial)
    engine.images = CameraInputs(engine, driver.contract)
    said = decoded(trial.instruction[0])
    return record_in_engine(driver, engine, log, name, goal=trial.place[0, 0], instruction=said)


VERIFICATION = LandmarkVerification
