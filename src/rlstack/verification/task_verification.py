"""What a task declares to be verified, and the one procedure that verifies every task of every kind of robot.

A task names its :class:`TaskVerification` by its ``verification``: a kind of robot, whose part of that name is taken,
or ``module:OBJECT``.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rlstack.control.navigation import PLANNERS
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces.backend import BACKENDS
from rlstack.robots import RobotSpec
from rlstack.sim.vector import BATCH
from rlstack.sim.world import World
from rlstack.tasks.bounds import Bounds
from rlstack.verification.drawing import Plot
from rlstack.verification.evaluator import Evaluation
from rlstack.verification.records import TrialRecord
from rlstack.verification.report import OVER_TOPICS
from rlstack.verification.scores import Score

OnProgress = Callable[[str, int, int], None]
Records = Mapping[str, tuple[TrialRecord, Mapping[str, Any]]]
"""By column: the record of the policy, and those of the baselines by their names."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be verified, all of it checked.

    Args:
        policy: The policy file; None: a planner is tried by itself.
        given: It, as it was typed.
        loaded: It, for ``robot``.
        sha256: Of its bytes.
        driver: A planner that is tried in the policy's place, which a policy file may lead; empty: the policy.
        task: The policy's task, or whose maps the planner drives.
        task_name: Its name.
        robot: What moves.
        named: The robot's name or file, as nodes load it.
        robot_option: What was typed as ``--robot``.
        names: ``batch`` and other simulators, all of them installed.
        topics: Whether to go over topics as well.
        episodes: In every simulator; None takes what is usual.
        seed: Of starts, disturbances and noise.
        drivers: Classical planners to compare with; None takes the task's.
        on_progress: Called with a column's name, what is done, and the total.
    """

    policy: Path | None
    given: str
    loaded: Any
    sha256: str
    driver: str = ""
    task: Any
    task_name: str
    robot: RobotSpec
    named: str
    robot_option: str
    names: tuple[str, ...]
    topics: bool
    episodes: int | None
    seed: int
    drivers: tuple[str, ...] | None = None
    on_progress: OnProgress | None = None

    @property
    def name(self) -> str:
        """Of who is tried: the policy's or the planner's."""
        return self.driver or str(self.loaded.contract.name)

    def shown(self, column: str) -> Callable[[int, int], None] | None:
        """Return what is called with the episodes done in a column and their total."""
        told = self.on_progress
        return None if told is None else lambda done, count: told(column, done, count)

    @property
    def command(self) -> str:
        """What to type to get the same again."""
        typed = ["rlstack", "verify", *([self.given] if self.given else [])]
        typed += ["--driver", self.driver, "--task", self.task_name] if self.driver else []
        typed += ["--backends", ",".join(self.names), "--seed", str(self.seed)]
        typed += ["--episodes", str(self.episodes)] if self.episodes is not None else []
        typed += ["--robot", self.robot_option] if self.robot_option else []
        typed += ["--drivers", ",".join(self.drivers)] if self.drivers is not None else []
        return shlex.join([*typed, *([] if self.topics else ["--no-topics"])])


@dataclass(frozen=True)
class Counts:
    """How many trials are usual.

    Args:
        batch: In the batch simulator.
        engines: In process in every other simulator.
        topics: Over topics.
        baselines: Baselines do the first so many in the batch simulator; None: all.
        baselines_in_engines: Likewise in every other simulator.
    """

    batch: int
    engines: int
    topics: int
    baselines: int | None = None
    baselines_in_engines: int | None = None

    @property
    def most(self) -> int:
        """The largest number of trials of a policy."""
        return max(self.batch, self.engines, self.topics)


@dataclass(frozen=True, kw_only=True)
class ColumnPlan:
    """What is to be tried in one place.

    Args:
        name: The column's.
        simulator: ``batch`` or another simulator.
        over_topics: Whether through the nodes of a deployment.
        trials: What the policy is tried on.
        baseline_trials: What baselines are tried on: the first of the same.
        bounds: What the policy must reach; None: the column is not judged.
    """

    name: str
    simulator: str
    over_topics: bool = False
    trials: Any
    baseline_trials: Any = None
    bounds: Bounds | None


class TaskVerification(ABC):
    """How policies of a task are evaluated while they learn, and verified.

    An instance is one verification: it draws the trials that the columns share. A subclass declares what is usual,
    draws, runs and scores; what it does not override has no baselines and no pictures.
    """

    first: ClassVar[tuple[str, ...]]
    """Keys of the figures that a reader wants first."""
    counts: Counts
    takes_planner: ClassVar[bool] = False
    """Whether a planner can be tried in the policy's place."""
    description: str = ""
    """Of what is tried, for the page."""

    def __init__(self, request: Request) -> None:
        self.request, self.task, self.robot = request, request.task, request.robot
        self.baselines: Sequence[str] = ()

    @staticmethod
    @abstractmethod
    def draw_evaluation(task: Any, robot: Any, episodes: int, seed: int) -> Any:
        """Return held-out trials by which the best policy of a run is chosen; no verification uses them."""

    @staticmethod
    @abstractmethod
    def evaluate(policy: Any, trials: Any, task: Any, robot: Any, seed: int) -> Evaluation:
        """Return how ``policy`` did at the trials of :meth:`draw_evaluation`.

        Raises:
            UserError: The policy's command was not finite.
        """

    @staticmethod
    def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
        """Return the figures of an evaluation in a sentence."""
        shown = ", ".join(f"{name} {figure:.4g}" for name, figure in figures.items() if name != "episodes")
        return f"Over {figures['episodes']:.0f} held-out episodes: {shown}."

    @property
    @abstractmethod
    def trials(self) -> Any:
        """The trials that the columns share; those with fewer take the first."""

    @abstractmethod
    def run(self, plan: ColumnPlan, baseline: str | None) -> Any:
        """Return the record of trials in process, of a baseline by name or of the policy (None)."""

    @abstractmethod
    def topics_runner(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function that runs the policy's trials through the nodes of a deployment, and its own options.

        It is called as :func:`rlstack.bringup.parallel.run_trials` says, with ``policy``, ``robot``, ``backend_name``,
        ``robot_name`` and ``seed`` beside its options.
        """

    @abstractmethod
    def score(self, record: Any, baselines: Mapping[str, Any]) -> Score:
        """Return the figures of a record, compared with those of baselines."""

    def score_baseline(self, record: Any, policy: Any) -> Score:
        """Return the figures of a baseline's record, beside the policy's record."""
        return self.score(record, {})

    @abstractmethod
    def describe(self, plan: ColumnPlan, record: Any) -> str:
        """Return in a sentence what was tried in a column."""

    def hold(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return which simulators can hold the task, and of the others why they cannot."""
        return tuple(names), {}

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return what is tried in process in a simulator."""
        return [self.column(simulator, simulator, self.trials, self.task.bounds)]

    def column(
        self, name: str, simulator: str, trials: Any, bounds: Bounds | None, count: int | None = None
    ) -> ColumnPlan:
        """Return what is tried in process: the usual number of ``trials``, or ``count`` of them."""
        batched, usual = simulator == BATCH, self.counts
        trials = self.placed(trials, simulator)
        some = self.take(trials, count or self.request.episodes or (usual.batch if batched else usual.engines))
        fewer = usual.baselines if batched else usual.baselines_in_engines
        beside = some if fewer is None else self.take(some, fewer)
        return ColumnPlan(name=name, simulator=simulator, trials=some, baseline_trials=beside, bounds=bounds)

    def take(self, trials: Any, count: int) -> Any:
        """Return the first ``count`` of some trials."""
        return trials[:count]

    def placed(self, trials: Any, simulator: str) -> Any:
        """Return trials where a simulator has them."""
        return trials

    def beside(self, baseline: Any, plan: ColumnPlan) -> Any:
        """Return a baseline's record in process as what is shown beside a column over topics; None: it is not shown."""
        return baseline

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> Sequence[Plot]:
        """Return the pictures of the report."""
        return ()

    def findings(self, records: Records) -> tuple[list[str], dict[str, Any]]:
        """Return further sentences for the report, and further entries of verify.json."""
        return [], {}

    def reasons(self) -> Sequence[str]:
        """Return why the policy fails whatever the figures say."""
        return ()

    def labels(self, plan: ColumnPlan) -> Mapping[str, str]:
        """Return what the names of a score's groups mean."""
        return {}

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the unusual settings of the task in a sentence, and what to add to the provenance."""
        return "", {}

    def no_drivers(self) -> None:
        """Refuse ``--drivers`` where no planner can do the task."""
        if self.request.drivers is not None:
            raise UserError("--drivers applies only to wheeled bases.")


def over_topics(simulator: str) -> str:
    """Return what reports and records call what was done over topics in a simulator."""
    return f"{simulator} {OVER_TOPICS}"


def held_by(names: Sequence[str], robot: RobotSpec, world: World | str = "") -> tuple[tuple[str, ...], dict[str, str]]:
    """Return which simulators can hold a robot, and of the others why they cannot.

    Args:
        names: ``batch`` and other simulators, installed.
        robot: What is to be tried.
        world: What is to be held too, a world or its name; empty: a floor.
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


def planners_of(names: Sequence[str], bounds: Bounds | None = None) -> list[str]:
    """Return names of planners, each once.

    Args:
        names: Of planners.
        bounds: Of a policy that is compared with the first of them; None: none is.

    Raises:
        UserError: One is unknown, or there is none and one is needed.
    """
    for name in names:
        if name not in PLANNERS.names():
            raise unknown_name("planner", name, PLANNERS.names())
    against = ("lead_high", "time_ratio", "lap_ratio", "steps_ratio")
    if not names and bounds is not None and any(name in bounds.limits for name in against):
        raise UserError(
            "drivers: none is not allowed, because the task compares its policies with a planner: name at least one,"
            " such as --drivers dwa, or leave --drivers out for the task's own."
        )
    return list(dict.fromkeys(names))
