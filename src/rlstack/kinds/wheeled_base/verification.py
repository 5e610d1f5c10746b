"""Verification of navigation on held-out maps, beside classical planners on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import Contract
from rlstack.sim.bases.moving_obstacles import MovingObstacles
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.settings import within
from rlstack.tasks.wheeled_base.task import BaseTask
from rlstack.verification.drawing import Plot
from rlstack.verification.drive_plots import Driven, draw_drives
from rlstack.verification.drive_score import score_baseline, score_drives
from rlstack.verification.evaluator import Evaluation
from rlstack.verification.navigation import drive
from rlstack.verification.navigation_episodes import Course, held_out_course
from rlstack.verification.records import NavigationRecord
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Counts, Records, Request, TaskVerification, planners_of

WAYS, ELSEWHERE = 1000, 300
"""Episodes on the maps with bounds; episodes in the batch simulator among movers, and on the other maps."""

OTHER_MAPS, MOVERS = f"{BATCH}, other maps", f"{BATCH}, movers"
"""Columns of the other kinds of maps, and of the maps with bounds where there are movers."""

_STREAM = 0xBA5E
"""Separates the episodes from other draws with the same seed."""


class DriveVerification(TaskVerification):
    """Base of verifications whose trials are episodes from a start to a goal, in a :class:`Course`.

    Planners drive only the first episodes: they take a hundred times as long as a policy.
    """

    first = ("episodes", "success", "collided", "timed_out", "gave_up", "lead", "time_s", "time_ratio", "path_ratio")
    planner_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Options of planners by name."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        if not isinstance(request.robot, WheeledBase):
            raise UserError(
                f"{request.robot.name} is a {request.robot.kind}, and planners drive wheeled bases: --robot"
                " turtlebot3_burger."
            )
        self.robot: WheeledBase = request.robot

    def take(self, trials: Course, count: int) -> Course:
        """Return the first episodes."""
        return trials.take(slice(0, count))

    def run(self, plan: ColumnPlan, baseline: str | None) -> NavigationRecord:
        """Run episodes in process."""
        from rlstack.kinds.wheeled_base.verification_run_navigation import drive_in_parallel

        request = self.request
        driver, name = baseline or request.driver or request.policy, baseline or request.name
        assert driver is not None
        return drive_in_parallel(
            driver,
            plan.trials if baseline is None else plan.baseline_trials,
            self.robot,
            plan.simulator,
            name=name,
            rate_hz=self.task.rate_hz,
            arrival_m=self.task.arrival_m,
            policy=request.policy or "" if request.driver and baseline is None else "",
            options=self.planner_options.get(baseline or ""),
            seed=request.seed,
            on_progress=request.shown(plan.name if baseline is None else f"{plan.name}: {baseline}"),
        )

    def topics_runner(self) -> tuple[Any, dict[str, Any]]:
        """Return the runner of episodes through the policy or planner node and the guard node."""
        from rlstack.kinds.wheeled_base.verification_run_navigation import drive_over_topics

        request = self.request
        return drive_over_topics, {"name": request.name, "driver": request.driver, "arrival_m": self.task.arrival_m}

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
            f"{len(pool):,} ways: {', '.join(dict.fromkeys(plan.trials.kinds.tolist()))}; difficulty"
            f" {pool.difficulty.min():.2g} to {pool.difficulty.max():.2g}; seeds {min(seeds):,} to {max(seeds):,};"
            f" shortest way {pool.shortest_m.min():.1f} to {pool.shortest_m.max():.1f} m; time allowed"
            f" {limit_s.min():.0f} to {limit_s.max():.0f} s"
        )

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the figures of the drives."""
        found: dict[str, tuple[Any, Any]] = dict(records)
        columns = {n: Driven(plans[n].trials, *found[n], arrival_m=self.task.arrival_m) for n in found}
        return draw_drives(columns, self.robot)


class MapVerification(DriveVerification):
    """Held-out maps: the kinds with bounds, the other kinds, and the kinds with bounds among movers."""

    takes_planner = True
    counts = Counts(batch=WAYS, engines=100, topics=40, baselines=200, baselines_in_engines=40)
    description = (
        "No map of these seeds is ever trained or tuned on. In the batch simulator each robot departs from its file as"
        " in training: lags, delay, slip; in the others it is as the file says. Planners have the same scans and"
        " odometry, and were tuned on training maps."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.task = task_on_maps(request.task_name)
        self._asked: tuple[Bounds | None, Bounds | None, Bounds | None] = (None, None, None)
        if request.driver:  # planners are slow, and no bound depends on them
            self.counts = Counts(batch=200, engines=40, topics=40)
        else:
            contract = request.loaded.contract
            self.task = replace(self.task, rate_hz=contract.rate_hz)
            planners = self.task.planners if request.drivers is None else request.drivers
            self.baselines = planners_of(planners, self.task.bounds)
            self._asked = (self.task.bounds, *_asked(self.task, contract))
        self._course = self._drawn(self.task.verified_on, request.episodes or WAYS)

    @staticmethod
    def draw_evaluation(task: Any, robot: WheeledBase, episodes: int, seed: int) -> Course:
        """Return episodes on held-out maps."""
        return held_out_course(
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
    def evaluate(policy: Any, trials: Course, task: Any, robot: WheeledBase, seed: int) -> Evaluation:
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
            f" take {figures['time_over_shortest']:.2f} times as long as the shortest way at full speed."
        )

    @property
    def trials(self) -> Course:
        """Return episodes on the kinds of maps with bounds."""
        return self._course

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return the trials in a simulator; in the batch simulator among movers and on other maps as well."""
        here, elsewhere, among = self._asked
        plans = [self.column(simulator, simulator, self._course, here)]
        if simulator != BATCH:
            return plans
        task, count = self.task, min(self.request.episodes or self.counts.batch, ELSEWHERE)
        if task.verified_among is not None:
            course = self._drawn(task.verified_on, count, task.verified_among)
            plans.append(self.column(MOVERS, BATCH, course, among, count))
        if others := [kind for kind in task.maps.kinds if kind not in task.verified_on]:
            plans.append(self.column(OTHER_MAPS, BATCH, self._drawn(others, count), elsewhere, count))
        return plans

    def _drawn(self, kinds: Sequence[str], count: int, movers: MovingObstacles | None = None) -> Course:
        """Return held-out episodes in any order, so that the first are as hard as the rest."""
        course = held_out_course(
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
    """Return a task whose policies are verified by driving maps.

    Raises:
        UserError: There is no such task, or its policies are verified differently.
    """
    task = TASKS.load(name)()
    if not isinstance(task, BaseTask) or not task.verified_on:
        others = [other for other in TASKS.names() if getattr(TASKS.load(other), "verified_on", ())]
        raise UserError(f"The task '{name}' is not verified by driving maps; those that are: {', '.join(others)}.")
    return task


def _asked(task: Any, contract: Contract) -> tuple[Bounds | None, Bounds | None]:
    """Return the bounds on the other kinds of maps, and among movers: none for a policy that was not trained on them.

    A policy without a record of its training has only the bounds on the other kinds of maps.
    """
    told = within(contract.training, "recipe", "task_settings")
    if told is None:
        return task.bounds_elsewhere, None
    others = set(task.maps.kinds) - set(task.verified_on)
    everywhere = others <= set((within(told, "maps") or {}).get("kinds", others))
    met = list((within(told, "moving") or {}).get("count", ()))[-1:] not in ([], [0])
    return task.bounds_elsewhere if everywhere else None, task.bounds_among if met else None


VERIFICATION = MapVerification
