"""Bases among people are verified in scenes that nobody trained in, beside planners that see the same people.

Two published settings are judged, by what the policy senses: with a scan HEIGHT's halls (arXiv 2411.12150), in which
people are tracked from it; without one CrowdNav's crossing (arXiv 1809.08835), in which it is told of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlstack.bringup.parallel import run_trials
from rlstack.bringup.verified import Verified
from rlstack.bringup.verifiers import Request, held_by, over_topics, planners_of
from rlstack.bringup.verifiers.wheeled_base import concluded
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification_run_navigation import drive_in_parallel, drive_over_topics
from rlstack.sim.bases.layout import CIRCLE_ROWS
from rlstack.sim.bases.parameters import drawn
from rlstack.sim.bases.pedestrians import with_pedestrians
from rlstack.sim.bases.scenes import Scenes, circle_crossing, halls
from rlstack.sim.maps.pool import pool_of
from rlstack.sim.maps.world import world_of
from rlstack.sim.vector import BATCH
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.catalog.base_crowd import CrowdTask, People
from rlstack.verification.courses import Course
from rlstack.verification.drive_report import Column, DriveVerification
from rlstack.verification.records import NavigationRecord
from rlstack.verification.report import environment

WAYS, CROWDED = 500, 200
"""Scenes in the batch simulator as published, and with half as many people again."""

WAYS_IN_ENGINES, WAYS_OVER_TOPICS = 100, 30
"""The same in every other simulator, in process and over topics."""

WAYS_PLANNED, WAYS_PLANNED_IN_ENGINES = 200, 20
"""Planners drive the first so many of them."""

MORE, MORE_PEOPLE = 1.5, f"{BATCH}, more people"
"""How many times as many people there are in a further column, and what it is called."""

HEIGHT = CrowdTask(scene="hall", rate_hz=10.0, episode_s=50.0, arrival_m=0.3)
CROWDNAV = CrowdTask(
    scene="circle_crossing",
    rate_hz=4.0,
    episode_s=25.0,
    arrival_m=0.3,
    people=People(walking=(5, 5), standing=(0, 0), radius_m=0.3, speed_m_s=1.0),
)

PLANNED: Mapping[str, Mapping[str, Any]] = {"dwa": {"people": True}, "astar_dwa": {"people": True}}
"""What planners are told that would take people for things that stand."""

_STREAM = 0xC0D
"""Keeps the scenes apart from other draws with the same seed."""

_TOLD = {
    "hall": (
        "Halls as HEIGHT draws them (arXiv 2411.12150): 9 x 9 m, 8 to 12 boxes, 5 to 9 people who walk and up to 2 who"
        " stand, most of whom do not see the robot. They are drawn from a random stream that nothing else uses; seeds"
        " are their numbers in it. All drivers are told of people what a tracker finds in their own scan; over topics"
        " the people node is the tracker. In the batch simulator each robot departs from its file as in training; in"
        " the others it is as the file says."
    ),
    "circle_crossing": (
        "Crossings as CrowdNav draws them (arXiv 1809.08835): five people on a circle of 4 m who do not see the robot,"
        " drawn from a random stream that nothing else uses; seeds are their numbers in it. All drivers are told the"
        " truth about people. The published test episodes themselves are benchmarks/crowdnav.py's."
    ),
}


def verify_crowd(request: Request) -> Verified:
    """Drive a policy among people in every simulator, judge it, and write report and record.

    Raises:
        UserError: The scenes could not be driven to their end, or the robot is none for the task.
    """
    contract = request.loaded.contract
    task = HEIGHT if "scan" in {port.name for port in contract.inputs} else CROWDNAV
    robot = task.reference(request.robot)
    trial = _Trial(request, replace(task, rate_hz=contract.rate_hz), robot)
    columns = trial.columns()
    verification = DriveVerification(
        name=contract.name,
        contract=contract,
        sha256=request.sha256,
        task=contract.task,
        robot=robot,
        columns=columns,
        left_out=trial.left_out,
        told=_TOLD[task.scene],
        provenance={"seed": request.seed, "setting": task.scene, "training": contract.training, **environment()},
        command=request.command,
    )
    return concluded(request, verification)


@dataclass(frozen=True)
class _Asked:
    """What is asked of a setting."""

    planners: tuple[str, ...]
    here: Bounds
    crowded: Bounds | None
    over_topics: Bounds


def course_of(task: CrowdTask, robot: WheeledBase, count: int, seed: int, times: float = 1.0) -> Course:
    """Return ways among people that nobody trains on, in which robots depart from their file.

    Args:
        task: The setting.
        robot: What drives.
        count: N.
        seed: Of scenes and departures.
        times: How many times as many people there are as in the setting, on average.
    """
    rng = np.random.default_rng([_STREAM, seed, round(10.0 * times)])
    if task.scene == "hall":
        hall = task.hall.crowded(times)
        scenes = halls(rng, count, hall.walking[1] + hall.standing[1], hall, robot.radius_m)
    else:
        scenes = circle_crossing(rng, count, task.people.walking[1])
    maps = tuple(replace(drawn_map, seed=number) for number, drawn_map in enumerate(scenes.maps))
    pool = pool_of(maps, boxes=max(1, *(len(m.boxes) for m in maps)), circles=0, fields=False)
    limit_s = np.full(count, task.episode_s)
    movers = Scenes(maps, scenes.people, scenes.persons)
    return Course(pool, drawn(robot, count, rng), limit_s, movers, tracked=task.tracked)


class _Trial:
    """The scenes of one verification, and who drives them."""

    def __init__(self, request: Request, task: CrowdTask, robot: WheeledBase) -> None:
        self._request, self._task, self._robot = request, task, robot
        crossing = task.scene == "circle_crossing"
        self._asked = _Asked(
            planners=task.planners[:1] if crossing else task.planners,
            here=task.bounds_crossing if crossing else task.bounds,
            crowded=None if crossing else task.bounds_crowded,
            over_topics=task.bounds_over_topics,
        )
        chosen = self._asked.planners if request.drivers is None else request.drivers
        self._planners = planners_of(chosen, self._asked.here)
        self._course = course_of(task, robot, request.episodes or WAYS, request.seed)
        scene = self._course.take(slice(0, 1))
        assert scene.movers is not None
        people = scene.movers.people[0].reshape(-1, CIRCLE_ROWS).astype(float)
        held, self.left_out = held_by(request.names, robot, with_pedestrians(world_of(scene.pool.maps[0]), people))
        if not held:
            raise UserError(f"None of these simulators can hold the task: {' '.join(self.left_out.values())}")
        self._held = held

    def columns(self) -> dict[str, Column]:
        """Return a column for each simulator in process, one for more people, and those over topics."""
        request, asked, columns = self._request, self._asked, {}
        many = request.episodes
        for name in self._held:
            count, planned = (WAYS, WAYS_PLANNED) if name == BATCH else (WAYS_IN_ENGINES, WAYS_PLANNED_IN_ENGINES)
            columns[name] = self._driven(name, name, self._course.take(slice(0, many or count)), planned, asked.here)
            if name == BATCH and asked.crowded is not None:
                course = course_of(self._task, self._robot, min(many or CROWDED, CROWDED), request.seed, MORE)
                columns[MORE_PEOPLE] = self._driven(name, MORE_PEOPLE, course, WAYS_PLANNED, asked.crowded)
        for name in (name for name in self._held if request.topics and name != BATCH):
            label, course = over_topics(name), self._course.take(slice(0, many or WAYS_OVER_TOPICS))
            driven = run_trials(
                drive_over_topics,
                course,
                policy=request.policy,
                robot=self._robot,
                backend_name=name,
                name=request.loaded.contract.name,
                robot_name=request.named,
                arrival_m=self._task.arrival_m,
                seed=request.seed,
                on_progress=request.shown(label),
            )
            beside = {who: drives.take(slice(0, len(course))) for who, drives in columns[name].baselines.items()}
            columns[label] = self._column(course, driven, beside, asked.over_topics)
        return columns

    def _driven(self, simulator: str, label: str, course: Course, planned: int, asked: Bounds) -> Column:
        drives = self._drive(simulator, label, course, None)
        some = course.take(slice(0, planned))
        beside = {who: self._drive(simulator, f"{label}: {who}", some, who) for who in self._planners}
        return self._column(course, drives, beside, asked)

    def _drive(self, simulator: str, label: str, course: Course, planner: str | None) -> NavigationRecord:
        request = self._request
        return drive_in_parallel(
            planner or request.policy,
            course,
            self._robot,
            simulator,
            name=planner or request.loaded.contract.name,
            rate_hz=self._task.rate_hz,
            arrival_m=self._task.arrival_m,
            options=PLANNED.get(planner or ""),
            seed=request.seed,
            on_progress=request.shown(label),
        )

    def _column(
        self, course: Course, drives: NavigationRecord, beside: dict[str, NavigationRecord], asked: Bounds
    ) -> Column:
        return Column(
            course=course,
            drives=drives,
            baselines=beside,
            bounds=asked,
            reference=next(iter(beside), ""),
            arrival_m=self._task.arrival_m,
        )


VERIFIER = verify_crowd
