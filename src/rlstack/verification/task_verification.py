"""Base class by which a task declares its verification, with the plans of its columns.

A task names its :class:`TaskVerification` in its ``verification``: a kind of robot, which has a part of that name, or
``module:OBJECT``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from rlstack.control.navigation import PLANNERS
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces.backend import BACKENDS
from rlstack.policies import load_policy
from rlstack.policies.record_check import OVER_TOPICS
from rlstack.robots import RobotSpec
from rlstack.sim.vector import BATCH
from rlstack.sim.world import World
from rlstack.tasks.bounds import RELATIVE, Bounds
from rlstack.verification.drawing import Plot
from rlstack.verification.parallel import run_trials
from rlstack.verification.reality import REFINEMENTS, SUCCESS, Axis, Conditions
from rlstack.verification.request import Request
from rlstack.verification.runner import take
from rlstack.verification.schedule import Counts, Part, Seconds
from rlstack.verification.scores import Score
from rlstack.verification.training_evaluation import Evaluation
from rlstack.verification.trial_records import TrialRecord
from rlstack.view.recording import Recording, ReplayedTrial

Records = Mapping[str, tuple[TrialRecord, Mapping[str, Any]]]
"""By column: the policy's record, and the baselines' records by name."""


MARGINS = "margins"
"""Name of the reality grid among the parts of a verification."""

REPORT = "plots, film and replay"
"""Likewise of what the report shows."""


@dataclass(frozen=True, kw_only=True)
class ColumnPlan:
    """The plan of one column.

    Args:
        name: Name of the column.
        simulator: ``batch`` or another simulator.
        over_topics: Whether it runs through the nodes of a deployment.
        trials: Trials of the policy.
        baseline_trials: Trials of the baselines: the first of the same.
        bounds: Bounds of the policy's figures; None: the column is not judged.
    """

    name: str
    simulator: str
    over_topics: bool = False
    trials: Any
    baseline_trials: Any = None
    bounds: Bounds | None


class TaskVerification(ABC):
    """Base class for evaluating a task's policies during training, and verifying them.

    An instance is one verification: it draws the trials that the columns share. A subclass declares defaults, and
    draws, runs and scores trials; by default there are no baselines and no plots.
    """

    first: ClassVar[tuple[str, ...]]
    """Keys of the main figures."""
    evaluated: ClassVar[tuple[str, ...]] = ()
    """Names of the figures that :meth:`evaluate` may return, beside those of :meth:`told_apart`. Empty: they are known
    after a training only."""
    counts: Counts
    """Numbers of trials for a proof within four minutes on two processors."""
    thorough: ClassVar[Counts | None] = None
    """Numbers of trials of a thorough verification; None: the same."""
    seconds: ClassVar[Seconds] = Seconds()
    """Expected times, for the first estimate."""
    trials: Any
    """The trials that the columns share; those with fewer take the first."""
    takes_planner: ClassVar[bool] = False
    """Whether a planner can be verified instead of a policy."""
    description: str = ""
    """Description of the trials, for the page."""
    enough: float = SUCCESS
    """Share of the trials that must succeed within a margin of the reality grid."""
    refinements: int = REFINEMENTS
    """Most bisections of an axis."""
    quick_margins: ClassVar[Mapping[str, float]] = {}
    """Margins that :func:`rlstack.verification.quick_grid.quick_grid` asks for instead, by axis."""
    reality_figures: ClassVar[tuple[str, ...]] = ("lost", "collided", "error_m", "time_s")
    """Keys of further figures that are kept at each value of an axis, where the score has them."""

    def __init__(self, request: Request) -> None:
        self.request, self.task, self.robot = request, request.task, request.robot
        self.counts = self.counts_of(request.thorough)
        if request.thorough:
            self.refinements *= 2
        self.baselines: Sequence[str] = ()

    @classmethod
    def counts_of(cls, thorough: bool) -> Counts:
        """Return the numbers of trials."""
        return cls.thorough if thorough and cls.thorough is not None else cls.counts

    @staticmethod
    @abstractmethod
    def draw_evaluation(task: Any, robot: Any, episodes: int, seed: int) -> Any:
        """Return held-out trials by which the best policy of a run is chosen; no verification uses them."""

    @staticmethod
    def told_apart(task: Any) -> Sequence[str]:
        """Return what trials are told apart by; an evaluation has a figure ``success_NAME`` for each. Default: none."""
        return ()

    @staticmethod
    @abstractmethod
    def evaluate(policy: Any, trials: Any, task: Any, robot: Any, seed: int) -> Evaluation:
        """Evaluate ``policy`` on the trials of :meth:`draw_evaluation`.

        Raises:
            UserError: The policy's command was not finite.
        """

    @staticmethod
    def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
        """Describe the figures of an evaluation in a sentence."""
        shown = ", ".join(f"{name} {figure:.4g}" for name, figure in figures.items() if name != "episodes")
        return f"Over {figures['episodes']:.0f} held-out episodes: {shown}."

    def run(self, plan: ColumnPlan, baseline: str | None) -> Any:
        """Run a baseline by name, or the policy (None), in process and return the record."""
        request = self.request
        run_trials_of, options = self.process_runner(plan, baseline)
        return run_trials(
            run_trials_of,
            plan.trials if baseline is None else plan.baseline_trials,
            on_progress=request.progress_of(plan.name if baseline is None else f"{plan.name}: {baseline}"),
            spread=request.spread,
            **{
                "make_driver": partial(load_policy, request.policy or "", robot=self.robot, sha256=request.sha256),
                "robot": self.robot,
                "simulator": plan.simulator,
                "name": baseline or request.name,
                "seed": request.seed,
                **options,
            },
        )

    def process_runner(self, plan: ColumnPlan, baseline: str | None) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function that runs trials in process, and its options; unless :meth:`run` is overridden.

        :func:`rlstack.verification.parallel.run_trials` calls it with the loaded policy, or what the option
        ``make_driver`` makes, and ``robot``, ``simulator``, ``name`` and ``seed`` in addition to its options.
        """
        raise NotImplementedError(f"{type(self).__name__} must define process_runner, or override run and run_under.")

    def axes(self) -> Sequence[Axis]:
        """Return the axes of the reality grid: those of the kind's ``verification_reality``; none by default.

        A task's ``margins`` may replace required margins by the axis's key.
        """
        return ()

    def reality_baselines(self) -> Sequence[str]:
        """Return the baselines whose margins are measured, too: the first one."""
        return self.baselines[:1]

    def conditions(self, trials: Any) -> Conditions:
        """Return the nominal conditions of the grid for some of the trials."""
        return Conditions(trials=trials, robot=self.robot)

    def run_under(self, conditions: Conditions, baseline: str | None) -> Any:
        """Run a baseline by name, or the policy (None), in the batch simulator, and return the record.

        The driver is made for the robot of the file, whatever the conditions' robot is.
        """
        trials = conditions.trials
        plan = ColumnPlan(name=BATCH, simulator=BATCH, trials=trials, baseline_trials=trials, bounds=None)
        run_trials_of, options = self.process_runner(plan, baseline)
        return run_trials(
            run_trials_of,
            trials,
            workers=1,
            **{
                "make_driver": partial(
                    load_policy, self.request.policy or "", robot=self.robot, sha256=self.request.sha256
                ),
                "robot": conditions.robot,
                "simulator": BATCH,
                "name": baseline or self.request.name,
                "seed": self.request.seed,
                "departures": conditions.departures,
                **options,
                **conditions.options,
            },
        )

    def run_together(self, asked: Sequence[Conditions]) -> list[Any]:
        """Run the policy under several conditions as :meth:`run_under` does, at the same time where a kind can."""
        return [self.run_under(conditions, None) for conditions in asked]

    @abstractmethod
    def topics_recorder(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the recorder of trials through the nodes of a deployment, and its options.

        :func:`rlstack.bringup.episode_runner.run_episodes` makes it and runs the trials.
        """

    @abstractmethod
    def score(self, record: Any, baselines: Mapping[str, Any]) -> Score:
        """Return the figures of a record, compared with those of baselines."""

    def score_baseline(self, record: Any, policy: Any) -> Score:
        """Return the figures of a baseline's record, beside the policy's record."""
        return self.score(record, {})

    def describe(self, plan: ColumnPlan, record: Any) -> str:
        """Describe a column's trials in a sentence."""
        return f"the first {len(record)} trials of {self.task.episode_s:g} s"

    def supported(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the task, and the reasons against the others."""
        return tuple(names), {}

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return the plans of the in-process columns of a simulator."""
        return [self.column(simulator, simulator, self.trials, self.task.bounds)]

    def column(
        self, name: str, simulator: str, trials: Any, bounds: Bounds | None, count: int | None = None
    ) -> ColumnPlan:
        """Return the plan of an in-process column: the default number of ``trials``, or ``count`` of them."""
        batched, usual = simulator == BATCH, self.counts
        trials = self.in_world(trials, simulator)
        some = take(trials, 0, count or self.request.episodes or (usual.batch if batched else usual.engines))
        fewer = usual.baselines if batched else usual.baselines_in_engines
        beside = some if fewer is None else take(some, 0, fewer) if fewer else None
        asked = bounds if batched else self.sampled(bounds, len(some), beside is not None)
        return ColumnPlan(name=name, simulator=simulator, trials=some, baseline_trials=beside, bounds=asked)

    def topics_column(self, simulator: str, first: bool) -> ColumnPlan:
        """Return the plan of a column over topics, in the ``first`` simulator or a further one."""
        request, usual = self.request, self.counts
        fewer = usual.topics if first or usual.topics_elsewhere is None else usual.topics_elsewhere
        some = take(self.in_world(self.trials, simulator), 0, request.episodes or fewer)
        bounds = None if request.driver else self.task.bounds_over_topics
        compared = usual.baselines_in_engines != 0
        return ColumnPlan(
            name=over_topics(simulator),
            simulator=simulator,
            over_topics=True,
            trials=some,
            bounds=self.sampled(bounds, len(some), compared),
        )

    def sampled(self, bounds: Bounds | None, count: int, compared: bool) -> Bounds | None:
        """Return the bounds of a column outside the batch simulator: in a default verification those of a sample."""
        whole = self.request.thorough or self.request.episodes is not None or self.thorough is None
        return bounds if bounds is None or whole else bounds.for_sample(count, compared)

    def parts(self, plans: Sequence[ColumnPlan], margins: int) -> list[Part]:
        """Return the parts of the verification with their expected times.

        Args:
            plans: All columns.
            margins: Number of axes of the reality grid.
        """
        seconds, parts = self.seconds, []
        for plan in plans:
            batched = plan.simulator == BATCH
            if plan.over_topics:
                parts.append(Part(plan.name, seconds.start + seconds.topics * len(plan.trials)))
                continue
            parts.append(Part(plan.name, (seconds.batch if batched else seconds.engines) * len(plan.trials)))
            each = seconds.baselines if batched else seconds.baselines_in_engines
            for who in self.baselines if plan.baseline_trials is not None else ():
                parts.append(Part(f"{plan.name}: {who}", each * len(plan.baseline_trials)))
        each = seconds.reality + seconds.reality_baselines * len(self.reality_baselines())
        trials = min(self.counts.reality, self.request.episodes or self.counts.reality)
        parts.append(Part(MARGINS, margins * each * trials / type(self).counts.reality))
        return [*parts, Part(REPORT, seconds.report)]

    def in_world(self, trials: Any, simulator: str) -> Any:
        """Return trials placed in a simulator's world."""
        return trials

    def beside(self, baseline: Any, plan: ColumnPlan) -> Any:
        """Return a baseline's in-process record for display beside a column over topics; None: not displayed."""
        return baseline

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> Sequence[Plot]:
        """Return the plots of the report."""
        return ()

    def replay(self, records: Records, plans: Mapping[str, ColumnPlan]) -> Sequence[ReplayedTrial]:
        """Return the best, median, worst and lost trials of the policy, each beside classical drivers; by default none.

        Raises:
            UserError: They cannot be shown, or not run again.
        """
        return ()

    @staticmethod
    def record(policy: Any, trials: Any, task: Any, robot: Any, seed: int) -> Sequence[Recording]:
        """Run a policy on trials of :meth:`draw_evaluation` and return their recordings; by default none.

        Raises:
            UserError: The policy's command was not finite, or the trials cannot be shown.
        """
        return ()

    def findings(self, records: Records) -> tuple[list[str], dict[str, Any]]:
        """Return further sentences for the report, and further entries of verify.json."""
        return [], {}

    def reasons(self) -> Sequence[str]:
        """Return reasons why the policy fails regardless of the figures."""
        return ()

    def labels(self, plan: ColumnPlan) -> Mapping[str, str]:
        """Return the meaning of the score's group names."""
        return {}

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the task's unusual settings in a sentence, and further entries of the provenance."""
        return "", {}

    def no_drivers(self) -> None:
        """Refuse ``--drivers`` for tasks without planners."""
        if self.request.drivers is not None:
            raise UserError("--drivers applies only to wheeled bases.")


def over_topics(simulator: str) -> str:
    """Return the name of a simulator's column over topics in reports and records."""
    return f"{simulator} {OVER_TOPICS}"


def supporting(
    names: Sequence[str], robot: RobotSpec, world: World | str = ""
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the simulators that support a robot, and the reasons against the others.

    Args:
        names: ``batch`` and other simulators, installed.
        robot: The robot.
        world: The required world or its name; empty: a floor.
    """
    held, left_out = [], {}
    for name in names:
        try:
            if name != BATCH:
                backend = BACKENDS.load(name)(robot, **({"world": world} if world else {}))
                backend.connect()
                backend.close()
        except UserError as error:
            left_out[name] = str(error)
            continue
        held.append(name)
    return tuple(held), left_out


def known_planners(names: Sequence[str], bounds: Bounds | None = None) -> list[str]:
    """Return names of planners without duplicates.

    Args:
        names: Names of planners.
        bounds: Bounds of a policy that is compared with the first planner; None: no comparison.

    Raises:
        UserError: A planner is unknown, or one is needed and none is given.
    """
    for name in names:
        if name not in PLANNERS.names():
            raise unknown_name("planner", name, PLANNERS.names())
    if not names and bounds is not None and any(name in bounds.limits for name in RELATIVE):
        raise UserError(
            "drivers: an empty list is not allowed: the task compares its policies with a planner; name at least one,"
            " such as --drivers dwa, or leave --drivers out for the task's own."
        )
    return list(dict.fromkeys(names))
