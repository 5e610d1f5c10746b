"""Bases are verified by driving held-out maps, beside classical planners over the same ways."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup import verified
from rlstack.bringup.parallel import run_trials
from rlstack.bringup.verified import Verified
from rlstack.bringup.verifiers import OnProgress, Request, over_topics, planners_of
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification_run_navigation import drive_in_parallel, drive_over_topics
from rlstack.policies import Contract
from rlstack.robots import load_robot
from rlstack.sim.bases.moving_obstacles import MovingObstacles
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.settings import within
from rlstack.tasks.wheeled_base.task import BaseTask
from rlstack.verification.courses import Course, held_out_course
from rlstack.verification.drive_page import shown
from rlstack.verification.drive_report import Column, DriveVerification, record_drives, write_drive_report
from rlstack.verification.records import NavigationRecord
from rlstack.verification.report import environment

WAYS, ELSEWHERE = 1000, 300
"""Ways in the batch simulator on the kinds of maps that are judged, and on the others."""

WAYS_IN_ENGINES, WAYS_OVER_TOPICS = 100, 40
"""The same in every other simulator, in process and over topics."""

WAYS_PLANNED, WAYS_PLANNED_IN_ENGINES = 200, 40
"""Planners drive the first so many of them: they take a hundred times as long as a policy."""

_POLICYS_WAYS, _PLANNERS_WAYS = (WAYS, WAYS_IN_ENGINES), (WAYS_PLANNED, WAYS_PLANNED_IN_ENGINES)

OTHER_MAPS, MOVERS = f"{BATCH}, other maps", f"{BATCH}, movers"
"""What the columns of the other kinds of maps, and of the judged kinds where something moves, are called."""

_STREAM = 0xBA5E
"""Keeps the ways apart from other draws with the same seed."""

Shown = Callable[[str], Callable[[int, int], None] | None]


def verify_base(request: Request) -> Verified:
    """Drive a policy in every simulator, judge it, and write the report and the record that deployment asks for.

    Raises:
        UserError: The ways could not be driven to their end, or the policy's task cannot be verified on maps.
    """
    robot, contract = request.robot, request.loaded.contract
    assert isinstance(robot, WheeledBase)
    task = replace(task_on_maps(contract.task), rate_hz=contract.rate_hz)
    planners = planners_of(task.planners if request.drivers is None else request.drivers, task.bounds)
    trial = _Trial(task, robot, request.episodes, request.seed, request.shown, planners, _POLICYS_WAYS)
    columns = trial.in_process(request.policy, contract.name, request.names, task.bounds, *_asked(task, contract))
    for name in (name for name in request.names if request.topics and name != BATCH):
        beside, asked = columns[name].baselines, task.bounds_over_topics
        by = request.policy, contract.name, name, request.named
        columns[over_topics(name)] = trial.over_topics(*by, beside, asked)
    verification = DriveVerification(
        name=contract.name,
        contract=contract,
        sha256=request.sha256,
        task=contract.task,
        robot=robot,
        columns=columns,
        provenance={"seed": request.seed, "training": contract.training, **environment()},
        command=request.command,
    )
    return concluded(request, verification)


def concluded(request: Request, verification: DriveVerification) -> Verified:
    """Write the report, and the record beside the policy, and return them.

    Raises:
        UserError: A file cannot be written.
    """
    data = record_drives(verification)
    return verified.concluded(request, verification, write_drive_report, data, **_told(verification))


def _told(v: DriveVerification) -> dict[str, Any]:
    return {"rows": shown(v.columns), "notes": [*verified.left_out(v.left_out), v.worth]}


def score_planner(
    driver: str,
    *,
    robot: str,
    policy: str | Path = "",
    task: str = "base_navigation",
    backends: Sequence[str] = (BATCH,),
    topics: bool = True,
    episodes: int | None = None,
    seed: int = 1,
    out: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Verified:
    """Drive a classical planner over the ways that policies are verified on, and write a report.

    Args:
        driver: The planner's name.
        robot: A robot's name or file.
        policy: The policy file that the planner leads, for ``astar_policy``; empty: it drives by itself.
        task: Whose maps.
        backends: ``batch`` and other simulators, installed.
        topics: In every simulator but ``batch`` over topics as well, by the planner's node behind the guard.
        episodes: In every simulator; None takes what is usual.
        seed: As of :func:`rlstack.bringup.verify.verify`.
        out: The report's folder; None: ``runs/<driver>-<robot>``.
        on_progress: As there.

    Raises:
        UserError: Something is unknown, or does not fit.
    """
    spec, chosen = load_robot(robot), task_on_maps(task)
    if not isinstance(spec, WheeledBase):
        raise UserError(f"{spec.name} is a {spec.kind}, and planners drive wheeled bases: --robot turtlebot3_burger.")
    (driver,) = planners_of([driver])

    def told(column: str) -> Callable[[int, int], None] | None:
        return None if on_progress is None else lambda done, count: on_progress(column, done, count)

    trial = _Trial(chosen, spec, episodes, seed, told, (), _PLANNERS_WAYS, policy)
    columns = trial.in_process(driver, driver, backends)
    for name in (name for name in backends if topics and name != BATCH):
        columns[over_topics(name)] = trial.over_topics(policy, driver, name, robot, {}, None, driver)
    typed = ["rlstack", "verify", *([str(policy)] if policy else []), "--driver", driver, "--robot", robot]
    typed += ["--task", task, "--backends", ",".join(backends), "--seed", str(seed)]
    typed += [*([] if episodes is None else ["--episodes", str(episodes)]), *([] if topics else ["--no-topics"])]
    verification = DriveVerification(
        name=driver,
        contract=None,
        sha256="",
        task=task,
        robot=spec,
        columns=columns,
        provenance={"seed": seed, **environment()},
        command=shlex.join(typed),
    )
    folder = Path("runs") / f"{driver}-{spec.name}" if out is None else Path(out).expanduser()
    return Verified(
        verification=verification,
        report=write_drive_report(folder, verification),
        record=folder / verification.record_name,
        data=record_drives(verification),
        **_told(verification),
    )


def task_on_maps(name: str) -> Any:
    """Return a task whose policies are verified by driving maps.

    Raises:
        UserError: There is no such task, or it is another's business.
    """
    task = TASKS.load(name)()
    if not isinstance(task, BaseTask) or not task.verified_on:
        others = [other for other in TASKS.names() if getattr(TASKS.load(other), "verified_on", ())]
        raise UserError(f"The task '{name}' is not verified by driving maps; those that are: {', '.join(others)}.")
    return task


def _asked(task: BaseTask, contract: Contract) -> tuple[Bounds | None, Bounds | None]:
    """Return what is asked on the other kinds of maps, and where something moves: nothing of who never trained there.

    A policy that does not say what it was trained on is judged by all that its task can train on.
    """
    told = within(contract.training, "recipe", "task_settings")
    if told is None:
        return task.bounds_elsewhere, None
    others = set(task.maps.kinds) - set(task.verified_on)  # type: ignore[attr-defined]
    everywhere = others <= set((within(told, "maps") or {}).get("kinds", others))
    met = list((within(told, "moving") or {}).get("count", ()))[-1:] not in ([], [0])
    return task.bounds_elsewhere if everywhere else None, task.bounds_among if met else None


class _Trial:
    """The ways of one verification, and who drives them.

    Args:
        task: Whose maps.
        robot: What drives.
        episodes: In every simulator; None: what is usual.
        seed: Of the ways.
        told: Of progress.
        planners: That drive beside, in process.
        usual: Ways in the batch simulator and in others.
        led: The policy file that a planner leads which is judged; empty: none.
    """

    def __init__(
        self,
        task: Any,
        robot: WheeledBase,
        episodes: int | None,
        seed: int,
        told: Shown,
        planners: Sequence[str],
        usual: tuple[int, int],
        led: str | Path = "",
    ) -> None:
        self._task, self._robot, self._episodes, self._seed = task, robot, episodes, seed
        self._shown, self._planners, self._led = told, tuple(planners), str(led)
        self._batched, self._simulated = (episodes or many for many in usual)
        self.course = self._drawn(task.verified_on, episodes or WAYS)
        """The ways that are judged; simulators with fewer take the first."""

    def in_process(
        self,
        driver: str | Path,
        name: str,
        simulators: Sequence[str],
        asked: Bounds | None = None,
        elsewhere: Bounds | None = None,
        among: Bounds | None = None,
    ) -> dict[str, Column]:
        """Return a column for each simulator; after the first, one with movers and one for the other kinds of maps.

        Args:
            driver: A policy file or a planner's name.
            name: Of the driver, for reports.
            simulators: Where.
            asked: What is to be reached on the kinds of maps that are judged.
            elsewhere: The same on the others.
            among: The same where something moves.
        """
        columns = {}
        for simulator in simulators:
            many = self._batched if simulator == BATCH else self._simulated
            columns[simulator] = self._driven(driver, name, simulator, simulator, self.course, many, asked)
            others = [kind for kind in self._task.maps.kinds if kind not in self._task.verified_on]
            count = min(self._batched, ELSEWHERE)
            if simulator == BATCH and self._task.verified_among is not None:
                course = self._drawn(self._task.verified_on, count, self._task.verified_among)
                columns[MOVERS] = self._driven(driver, name, BATCH, MOVERS, course, count, among)
            if simulator == BATCH and others:
                course = self._drawn(others, count)
                columns[OTHER_MAPS] = self._driven(driver, name, BATCH, OTHER_MAPS, course, count, elsewhere)
        return columns

    def over_topics(
        self,
        policy: str | Path,
        name: str,
        simulator: str,
        robot: str,
        beside: Mapping[str, NavigationRecord],
        asked: Bounds | None,
        driver: str = "",
    ) -> Column:
        """Return a column of the first ways, driven through the nodes of a deployment.

        Args:
            policy: The policy file; empty if a planner drives by itself.
            name: Of the driver, for reports.
            simulator: With an engine.
            robot: The name or file that the nodes load.
            beside: What planners drove in process over the same ways and perhaps more.
            asked: What is to be reached.
            driver: The planner whose node drives; empty: the policy's.
        """
        label, course = over_topics(simulator), self.course.take(slice(0, self._episodes or WAYS_OVER_TOPICS))
        driven = run_trials(
            drive_over_topics,
            course,
            policy=policy,
            robot=self._robot,
            backend_name=simulator,
            name=name,
            driver=driver,
            robot_name=robot,
            arrival_m=self._task.arrival_m,
            seed=self._seed,
            on_progress=self._shown(label),
        )
        return self._column(course, driven, {who: d.take(slice(0, len(course))) for who, d in beside.items()}, asked)

    def _column(
        self, course: Course, drives: NavigationRecord, beside: dict[str, NavigationRecord], asked: Bounds | None
    ) -> Column:
        """Return one column."""
        return Column(
            course=course,
            drives=drives,
            baselines=beside,
            bounds=asked,
            reference=next(iter(beside), ""),
            arrival_m=self._task.arrival_m,
        )

    def _driven(
        self,
        driver: str | Path,
        name: str,
        simulator: str,
        label: str,
        course: Course,
        many: int,
        asked: Bounds | None,
    ) -> Column:
        course = course.take(slice(0, many))
        drives = self._drive(driver, name, simulator, label, course, self._led)
        some = course.take(slice(0, WAYS_PLANNED if simulator == BATCH else WAYS_PLANNED_IN_ENGINES))
        beside = {who: self._drive(who, who, simulator, f"{label}: {who}", some) for who in self._planners}
        return self._column(course, drives, beside, asked)

    def _drive(
        self, driver: str | Path, name: str, simulator: str, label: str, course: Course, led: str = ""
    ) -> NavigationRecord:
        task = self._task
        return drive_in_parallel(
            driver,
            course,
            self._robot,
            simulator,
            name=name,
            rate_hz=task.rate_hz,
            arrival_m=task.arrival_m,
            policy=led,
            seed=self._seed,
            on_progress=self._shown(label),
        )

    def _drawn(self, kinds: Sequence[str], count: int, movers: MovingObstacles | None = None) -> Course:
        """Return held-out ways in any order, so that the first are as hard as the rest."""
        task = self._task
        course = held_out_course(
            self._robot,
            count,
            self._seed,
            kinds=kinds,
            difficulty=task.maps.difficulty,
            fastest_m_s=task.fastest_m_s(self._robot),
            movers=movers,
        )
        return course.take(np.random.default_rng([_STREAM, self._seed]).permutation(count))


VERIFIER = verify_base
