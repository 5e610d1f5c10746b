"""Verification of manipulators by held-out trials: vectorised, in every engine in process, and over topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rlstack.bringup.episode_runner import JointedRecorder, StillGoals
from rlstack.errors import UserError
from rlstack.interfaces.instruction import decoded
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.manipulator.verification_reality import arm_axes
from rlstack.policies import Contract
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.tasks.core.trained_task import changed_settings, trained_task
from rlstack.tasks.manipulator.table_trials import TableTrials
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import ArmTrials
from rlstack.verification.camera_inputs import CameraInputs
from rlstack.verification.drawing import Plot
from rlstack.verification.instructed import VERIFIED
from rlstack.verification.jointed_recordings import SIMULATOR, column_in_engine, record_in_engine, replay_jointed
from rlstack.verification.manipulation_plots import draw_trials
from rlstack.verification.manipulation_score import score_arm
from rlstack.verification.manipulation_simulator import ManipulationSimulator, world_of
from rlstack.verification.manipulation_trials import ManipulationLog, check_fits, held_out, manipulate
from rlstack.verification.reality import Axis
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts, Seconds
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Records, TaskVerification, supporting
from rlstack.verification.training_evaluation import Evaluation
from rlstack.verification.trial_records import ManipulationRecord
from rlstack.view.recording import Recording, ReplayedTrial, choose

_APART_M = 1.0
"""Distance at which arms are drawn beside each other."""

LEAST_IN_ENGINES = 10
"""Trials that justify another process in an engine; the batch simulator has its own threads."""


class ManipulationRecorder(JointedRecorder):
    """Records the object or tool that must reach the goal; an episode ends at its time limit."""

    def __init__(self, name: str, robot: Manipulator, trials: ArmTrials, *, task: Any, seed: int, first: int) -> None:
        simulator = ManipulationSimulator(name, task, robot, trials, seed, first)
        said = trials.instruction if isinstance(trials, TableTrials) else ()
        goals = StillGoals(trials.goal, np.zeros(len(trials)), instruction=said)
        super().__init__(simulator, ManipulationLog(simulator.task, trials), goals)


class ManipulationVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "lost", "time_s", "error_m", "error_p95_m", "intervened", "latency_p99_ms")
    evaluated = ("episodes", "success", "lost", "time_s", "error_m")
    counts = Counts(batch=500, engines=40, topics=30, topics_elsewhere=20)
    thorough = Counts(batch=500, engines=100, topics=40, reality=200)
    seconds = Seconds(batch=0.01, engines=0.22, topics=0.6, reality=2.0)
    description = (
        "Starts, goals and objects that are used neither for training nor to choose a run's best policy; all columns"
        " share the first ones. Joint states and the object's pose have the task's noise. The batch simulator runs many"
        " MuJoCo worlds, with the links as capsules and boxes; the engines use the links' meshes and command joints at"
        " the robot's control rate. Over topics commands pass the guard with the robot file's limits."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.no_drivers()
        assert isinstance(request.robot, Manipulator)
        self.robot: Manipulator = request.robot
        self.trained: ArmTask = task_of(request.loaded.contract, request.given)
        self.task = self.trained.judged()
        most = request.episodes or self.counts.most
        self.trials = held_out(self.task, self.robot, most, VERIFIED + request.seed)

    @staticmethod
    def draw_evaluation(task: Any, robot: Manipulator, episodes: int, seed: int) -> ArmTrials:
        """Return held-out trials; those of a recipe with randomisation depart as its episodes do."""
        return replace(
            held_out(task, robot, episodes, seed),
            departures=task.randomisation.draw(np.random.default_rng(seed), episodes),
        )

    @staticmethod
    def told_apart(task: Any) -> Sequence[str]:
        """Return the kinds of sentences, of a task with several."""
        return tuple(dict.fromkeys(task.kinds)) if task.kinds_of(np.zeros((1, 3))) is not None else ()

    trial_world = staticmethod(world_of)

    @staticmethod
    def evaluate(policy: Any, trials: ArmTrials, task: Any, robot: Manipulator, seed: int) -> Evaluation:
        """Return the policy's results in MuJoCo, ranked by success, then by time to success."""
        judged = task.judged()
        figures = manipulate(policy, judged, robot, trials, seed=seed, batch_size=len(trials)).figures()
        late = figures.get("time_s", task.episode_s)
        return Evaluation(figures["success"], (round(figures["success"], 3), -late), figures)

    @staticmethod
    def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
        """Summarize the policy's results."""
        sentence = (
            f"Of {figures['episodes']:.0f} held-out trials {100 * figures['success']:.1f}% are within"
            f" {task.tolerance_m:g} m of the goal for the last {task.hold_s:g} s of {task.judged().episode_s:g} s;"
            f" {100 * figures['lost']:.1f}% are lost"
        )
        if "time_s" in figures:
            sentence += f"; those that succeed take {figures['time_s']:.2f} s"
        asked = {name.removeprefix("success_"): share for name, share in figures.items() if name.startswith("success_")}
        kinds = [f"{100 * share:.0f}% {name}" for name, share in asked.items()]
        return f"{sentence}{', and by what is asked: ' if kinds else ''}{', '.join(kinds)}."

    def supported(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the robot and what it handles."""
        if self.task.objects is None:
            return supporting(names, self.robot)
        try:
            world = world_of(self.task, self.trials, 0)
        except UserError as error:
            others = {name: str(error) for name in names if name != BATCH}
            return tuple(name for name in names if name == BATCH), others
        return supporting(names, self.robot, world)

    def process_runner(self, plan: ColumnPlan, baseline: str | None) -> tuple[Any, dict[str, Any]]:
        """Return the function that runs manipulation trials, and its options."""
        least = len(plan.trials) + 1 if plan.simulator == BATCH else LEAST_IN_ENGINES
        driver = {} if baseline is None else {"make_driver": partial(_expert, self.task, self.robot)}
        return manipulate, {"task": self.task, "least": least, **driver}

    def axes(self) -> Sequence[Axis]:
        """Return the axes of the reality grid."""
        return arm_axes(self.robot, self.task, self._handles)

    def reality_baselines(self) -> Sequence[str]:
        """Return the scripted expert, where it needs no more than the policy's inputs."""
        return ("expert",) if self.task.objects is None or self._handles else ()

    @property
    def _handles(self) -> bool:
        return "object_position" in self.task.inputs

    def topics_recorder(self) -> tuple[Any, dict[str, Any]]:
        """Return the recorder of trials through the policy and guard nodes, and its options."""
        return ManipulationRecorder, {"task": self.task}

    def score(self, record: ManipulationRecord, baselines: Mapping[str, Any]) -> Score:
        """Return the figures of the trials, without a baseline."""
        task = self.task
        last = f"for the last {task.hold_s:g} s of {task.episode_s:g} s"
        return score_arm(record, f"{task.moved.replace('_', ' ')} within {task.tolerance_m:g} m of the goal {last}")

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the settings of the policy's training that differ from the defaults."""
        return changed_settings(self.trained)

    def replay(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[ReplayedTrial]:
        """Run trials again in an engine, and the scripted expert beside the policy where it needs no images."""
        name = column_in_engine(records)
        tried: Any = records[name][0]
        policy, trials = self.request.loaded, plans[name].trials
        drivers = {self.request.name: policy}
        if self.reality_baselines():
            drivers["expert"] = _expert(self.task, self.robot)
        seed = self.request.seed

        def run(number: int) -> list[Recording]:
            one = trials.take(np.array([number]))
            return [_recorded(d, self.task, self.robot, one, seed, number, who) for who, d in drivers.items()]

        chosen = choose(tried.success, tried.lost, tried.time_s, tried.labels)
        return replay_jointed(tried, chosen, run, _APART_M)

    @staticmethod
    def record(policy: Any, trials: ArmTrials, task: Any, robot: Manipulator, seed: int) -> list[Recording]:
        """Run a policy in an engine and return recordings."""
        judged, every = task.judged(), range(len(trials))
        return [_recorded(policy, judged, robot, trials.take(np.array([k])), seed, k, "policy") for k in every]

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the plots of the trials."""
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


def _recorded(
    driver: Any, task: Any, robot: Manipulator, trial: ArmTrials, seed: int, number: int, name: str
) -> Recording:
    """Run one trial, with the noise that it has as the ``number``-th one, and return its recording."""
    arm = ManipulationSimulator(SIMULATOR, task, robot, trial, seed, number)
    if hasattr(driver, "contract"):  # an expert has none
        check_fits(driver, task, robot)
        arm.images = CameraInputs(arm, driver.contract)
    said = decoded(trial.instruction[0]) if isinstance(trial, TableTrials) else ""
    goal, log = np.asarray(trial.goal[0], dtype=float), ManipulationLog(arm.task, trial)
    return record_in_engine(driver, arm, log, name, goal=goal if np.isfinite(goal).all() else None, instruction=said)


def _expert(task: ArmTask, robot: Manipulator) -> Any:
    """Return the task's scripted expert as a driver; it needs torch, as the policy file does not."""
    from rlstack.tasks.manipulator.expert_driver import ExpertDriver

    return ExpertDriver(task, robot)


VERIFICATION = ManipulationVerification
