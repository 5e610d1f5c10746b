"""Verification of navigation on held-out maps, beside classical planners on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rlstack.control.navigation import PLANNERS
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification_reality import navigation_axes
from rlstack.policies import Contract
from rlstack.sim.crowds.moving_obstacles import MovingObstacles
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.trained_task import within
from rlstack.tasks.wheeled_base.task import BaseTask
from rlstack.verification.drawing import Plot
from rlstack.verification.navigation_episodes import PEOPLED, NavigationEpisodes, held_out_episodes
from rlstack.verification.navigation_plots import NavigationColumn, draw_drives
from rlstack.verification.navigation_score import score_baseline, score_drives
from rlstack.verification.navigation_trials import BATCH_SIZE, drive
from rlstack.verification.reality import Axis
from rlstack.verification.recordings import record_drives, replay_drives
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts, Seconds
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Records, TaskVerification, known_planners
from rlstack.verification.training_evaluation import Evaluation
from rlstack.verification.trial_records import NavigationRecord
from rlstack.view.recording import Recording, ReplayedTrial

OTHER_MAPS, MOVERS = f"{BATCH}, other maps", f"{BATCH}, movers"
"""Columns of the other kinds of maps, and of the maps with bounds where there are movers."""

PLANNER_BATCH_SIZE = 25
"""Robots that a planner drives together in the batch simulator."""

LEAST, LEAST_IN_ENGINES = 50, 10
"""Episodes that justify another process, in the batch simulator and in an engine."""

_STREAM = 0xBA5E
"""Separates the episodes from other draws with the same seed."""


class DriveVerification(TaskVerification):
    """Base of verifications whose trials are episodes from a start to a goal, in a :class:`NavigationEpisodes`.

    Planners drive only the first episodes: they take a hundred times as long as a policy.
    """

    first = ("episodes", "success", "collided", "timed_out", "gave_up", "lead", "time_s", "time_ratio", "path_ratio")
    planner_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Options of planners by name."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        if not isinstance(request.robot, WheeledBase):
            raise UserError(
                f"{request.robot.name} is a {request.robot.kind}, and planners drive only wheeled bases, such as"
                " --robot turtlebot3_burger."
            )
        self.robot: WheeledBase = request.robot

    @property
    def _besides(self) -> int:
        """Episodes in further columns of the batch simulator."""
        usual = self.counts.batch if self.counts.besides is None else self.counts.besides
        return min(self.request.episodes or usual, usual)

    def reality_baselines(self) -> Sequence[str]:
        """Return no planner unless one is asked for, or thoroughly: its margins take longer than all of the rest."""
        return self.baselines[:1] if self.request.drivers or self.request.thorough else ()

    def process_runner(self, plan: ColumnPlan, baseline: str | None) -> tuple[Any, dict[str, Any]]:
        """Return the function that drives in process, and its options."""
        request, batched = self.request, plan.simulator == BATCH
        batch_size, options = (BATCH_SIZE if batched else 1), {}
        if planner := baseline or request.driver:
            led = {"policy": str(request.policy)} if request.policy and not baseline else {}
            planned = {**led, **self.planner_options.get(baseline or "", {})}
            batch_size = PLANNER_BATCH_SIZE if batched else 1
            options = {"make_driver": partial(PLANNERS.load(planner), self.robot, **planned)}
        return drive, {
            "least": max(batch_size, LEAST) if batched else LEAST_IN_ENGINES,
            "multiple": batch_size,
            "batch_size": batch_size,
            "rate_hz": self.task.rate_hz,
            "arrival_m": self.task.arrival_m,
            **options,
        }

    def topics_recorder(self) -> tuple[Any, dict[str, Any]]:
        """Return the recorder of drives through the policy or planner node and the guard node, and its options."""
        from rlstack.kinds.wheeled_base.verification_topics import NavigationRecorder

        return NavigationRecorder, {"arrival_m": self.task.arrival_m}

    def beside(self, baseline: NavigationRecord, plan: ColumnPlan) -> NavigationRecord:
        """Return a planner's results on the episodes that were driven over topics."""
        return baseline.take(slice(0, len(plan.trials)))

    def score(self, record: NavigationRecord, baselines: Mapping[str, NavigationRecord]) -> Score:
        """Return the figures of drives; the first planner is the reference."""
        reference = next(iter(baselines.values()), None)
        return score_drives(record, arrival_m=self.task.arrival_m, beside=reference)

    def score_baseline(self, record: NavigationRecord, policy: NavigationRecord) -> Score:
        """Return the figures of a planner's drives, and the policy's results relative to it."""
        return score_baseline(record, policy, arrival_m=self.task.arrival_m)

    def describe(self, plan: ColumnPlan, record: NavigationRecord) -> str:
        """Describe the episodes."""
        pool, limit_s = plan.trials.pool, plan.trials.limit_s
        seeds = [drawn.seed for drawn in pool.maps]
        return (
            f"{len(pool):,} episodes: {', '.join(dict.fromkeys(plan.trials.kinds.tolist()))}; difficulty"
            f" {pool.difficulty.min():.2g} to {pool.difficulty.max():.2g}; seeds {min(seeds):,} to {max(seeds):,};"
            f" shortest path {pool.shortest_m.min():.1f} to {pool.shortest_m.max():.1f} m; time limit"
            f" {limit_s.min():.0f} to {limit_s.max():.0f} s"
        )

    def replay(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[ReplayedTrial]:
        """Return drives of the first column, beside a planner's."""
        found: dict[str, Any] = dict(records)
        name, (driven, beside) = next(iter(found.items()))
        return replay_drives(driven, beside, plans[name].trials, self.robot)

    @staticmethod
    def record(policy: Any, trials: NavigationEpisodes, task: Any, robot: WheeledBase, seed: int) -> list[Recording]:
        """Drive a policy in the batch simulator and return recordings."""
        driven = drive(policy, trials, robot, rate_hz=task.rate_hz, arrival_m=task.arrival_m, name="policy", seed=seed)
        return record_drives(driven, trials, robot, range(len(driven)))

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the plots of the drives."""
        found: dict[str, tuple[Any, Any]] = dict(records)
        columns = {n: NavigationColumn(plans[n].trials, *found[n], arrival_m=self.task.arrival_m) for n in found}
        return draw_drives(columns, self.robot)


class MapVerification(DriveVerification):
    """Held-out maps: the kinds with bounds, the other kinds, and the kinds with bounds among movers."""

    evaluated = ("episodes", "success", "collided", "time_over_shortest")
    takes_planner = True
    counts = Counts(
        batch=1000, engines=20, topics=20, besides=300, baselines=50, baselines_in_engines=0, reality_baselines=25
    )
    thorough = Counts(
        batch=1000,
        engines=100,
        topics=40,
        besides=300,
        baselines=200,
        baselines_in_engines=40,
        reality=200,
        reality_baselines=50,
    )
    seconds = Seconds(
        batch=0.01, engines=0.7, topics=2.0, baselines=0.2, baselines_in_engines=1.0, reality=2.0, reality_baselines=3.0
    )
    description = (
        "Maps of these seeds are never used for training or tuning. In the batch simulator each robot's lags, delay and"
        " slip are randomized as in training; in other simulators they are those of the robot file. Planners receive"
        " the same scans and odometry, and were tuned on training maps."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.task = task_on_maps(request.task_name)
        self._bounds: tuple[Bounds | None, Bounds | None, Bounds | None] = (None, None, None)
        if request.driver:  # planners are slow, and no bound depends on them
            self.counts = Counts(batch=200, engines=40, topics=40)
        else:
            contract = request.loaded.contract
            self.task = replace(self.task, rate_hz=contract.rate_hz)
            planners = self.task.planners if request.drivers is None else request.drivers
            if request.drivers is None and not request.thorough:
                planners = planners[:1]  # the reference; each of them takes as long as all of the policy's trials
            self.baselines = known_planners(planners, self.task.bounds)
            self._bounds = (self.task.bounds, *_bounds(self.task, contract))
        self.trials = self._drawn(self.task.verified_on, request.episodes or self.counts.batch)

    @staticmethod
    def draw_evaluation(task: Any, robot: WheeledBase, episodes: int, seed: int) -> NavigationEpisodes:
        """Return episodes on held-out maps."""
        return held_out_episodes(
            robot,
            episodes,
            seed,
            kinds=task.maps.kinds,
            difficulty=task.maps.difficulty,
            fastest_m_s=task.fastest_m_s(robot),
            validation=True,
            movers=getattr(task, "moving", None),
        )

    @staticmethod
    def told_apart(task: Any) -> Sequence[str]:
        """Return the kinds of maps, as results name them."""
        movers = getattr(task, "moving", None)
        among = PEOPLED if movers is not None and movers.most else ""
        return tuple(dict.fromkeys(f"{kind}{among}" for kind in task.maps.kinds))

    @staticmethod
    def evaluate(policy: Any, trials: NavigationEpisodes, task: Any, robot: WheeledBase, seed: int) -> Evaluation:
        """Return the policy's results in the batch simulator, ranked by success, then by time over the shortest."""
        driven = drive(policy, trials, robot, rate_hz=task.rate_hz, arrival_m=task.arrival_m, name="policy", seed=seed)
        success, hit = float(driven.success.mean()), float((driven.ending == "collided").mean())
        taken = driven.time_s[driven.success]
        straight = driven.shortest_m[driven.success] / task.fastest_m_s(robot)
        slow = float((taken / straight).mean()) if len(taken) else 100.0
        figures = {"episodes": len(driven), "success": success, "collided": hit, "time_over_shortest": round(slow, 3)}
        for kind in np.unique(driven.labels):
            figures[f"success_{kind}"] = round(float(driven.success[driven.labels == kind].mean()), 4)
        return Evaluation(success, (round(success, 3), -slow), figures)

    @staticmethod
    def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
        """Summarize the policy's drives."""
        return (
            f"Of {figures['episodes']:.0f} held-out drives {100 * figures['success']:.1f}% come within"
            f" {task.arrival_m:g} m of the goal and {100 * figures['collided']:.1f}% hit something; those that arrive"
            f" take {figures['time_over_shortest']:.2f} times as long as the shortest path at full speed."
        )

    def axes(self) -> Sequence[Axis]:
        """Return the axes of the reality grid."""
        return navigation_axes(self.robot, self.task.rate_hz)

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return the trials in a simulator; in the batch simulator among movers and on other maps as well."""
        here, elsewhere, among = self._bounds
        plans = [self.column(simulator, simulator, self.trials, here)]
        if simulator != BATCH:
            return plans
        task, count = self.task, self._besides
        if task.verified_among is not None:
            course = self._drawn(task.verified_on, count, task.verified_among)
            plans.append(self.column(MOVERS, BATCH, course, among, count))
        if others := [kind for kind in task.maps.kinds if kind not in task.verified_on]:
            plans.append(self.column(OTHER_MAPS, BATCH, self._drawn(others, count), elsewhere, count))
        return plans

    def _drawn(self, kinds: Sequence[str], count: int, movers: MovingObstacles | None = None) -> NavigationEpisodes:
        """Return held-out episodes in random order, so that the first are as hard as the rest."""
        course = held_out_episodes(
            self.robot,
            count,
            self.request.seed,
            kinds=kinds,
            difficulty=self.task.maps.difficulty,
            fastest_m_s=self.task.fastest_m_s(self.robot),
            movers=movers,
        )
        return course.take(np.random.default_rng([_STREAM, self.request.seed]).permutation(count))


def task_on_maps(name: str) -> Any:
    """Return a task whose policies are verified on maps.

    Raises:
        UserError: There is no such task, or its policies are verified differently.
    """
    task = TASKS.load(name)()
    if not isinstance(task, BaseTask) or not task.verified_on:
        others = [other for other in TASKS.names() if getattr(TASKS.load(other), "verified_on", ())]
        raise UserError(f"The task '{name}' is not verified on maps; tasks that are: {', '.join(others)}.")
    return task


def _bounds(task: Any, contract: Contract) -> tuple[Bounds | None, Bounds | None]:
    """Return the bounds on the other kinds of maps, and among movers: none for a policy that was not trained on them.

    A policy without a record of its training has only the bounds on the other kinds of maps.
    """
    settings = within(contract.training, "recipe", "task_settings")
    if settings is None:
        return task.bounds_elsewhere, None
    others = set(task.maps.kinds) - set(task.verified_on)
    everywhere = others <= set((within(settings, "maps") or {}).get("kinds", others))
    met = list((within(settings, "moving") or {}).get("count", ()))[-1:] not in ([], [0])
    return task.bounds_elsewhere if everywhere else None, task.bounds_among if met else None


VERIFICATION = MapVerification
