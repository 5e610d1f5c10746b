"""Drive a course in a simulator over real topics, in lock step, through the nodes that are deployed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.goal_publisher import GoalPublisher
from rlstack.bringup.parallel import OnProgress, in_processes, workers_for
from rlstack.bringup.turns import LEAST_TURNS, Recorder, Worlds, take_turns
from rlstack.interfaces.backend import Signals
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.layout import CIRCLE_ROWS
from rlstack.sim.maps.world import world_of
from rlstack.sim.world import World
from rlstack.verification.courses import Course
from rlstack.verification.fleets import PHYSICS_HZ, clearance_at
from rlstack.verification.records import NavigationRecord
from rlstack.verification.report import OVER_TOPICS
from rlstack.verification.walkers import Walkers, move, peopled


def drive_over_topics(
    policy: str | Path,
    course: Course,
    robot: WheeledBase,
    backend_name: str = "mujoco",
    *,
    name: str,
    arrival_m: float,
    driver: str = "",
    robot_name: str = "",
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> NavigationRecord:
    """Drive every way of a course, one after the other, and record it as in process.

    The robot node runs in this process; policy (or planner) and guard are the separate processes of a deployment, with
    all of the guard's rules but the geofence. For each way there is a new world; time jumps, and policy and guard start
    afresh as they do after any reset. Where people walk on the course they do so here, and whoever senses people is
    told by a people node. Time waits for every command, so the speed of this machine does not matter.

    Args:
        policy: The policy file; empty if a planner drives by itself.
        course: N ways.
        robot: What drives.
        backend_name: A simulator.
        name: Of the driver, for reports.
        arrival_m: Nearer to the goal than this is there.
        driver: A planner whose node drives in the policy node's stead, such as ``dwa``, or leads it: ``astar_policy``.
        robot_name: The name or file that the nodes load; empty takes the robot's name.
        seed: Of the sensors' noise, with the way's number.
        first: The number of the first way.
        on_progress: Called after every way with those done and their total.

    Raises:
        UserError: The backend cannot do this, a node ended, or a command did not come.
    """
    worlds = _Worlds(backend_name, robot, course, seed + first)
    recorder = _Recorder(course, worlds, arrival_m, on_progress)
    wall_s = take_turns(policy, driver, robot_name or robot.name, backend_name, worlds, recorder)
    return recorder.drives(name, f"{backend_name} {OVER_TOPICS}", wall_s)


def drive_over_topics_in_parallel(
    policy: str | Path,
    course: Course,
    robot: WheeledBase,
    backend_name: str,
    *,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> NavigationRecord:
    """Do what :func:`drive_over_topics` does, in ``workers`` processes that each drive a share; None: what is worth it.

    Raises:
        UserError: As there; the first worker to fail ends all.
    """
    count = workers_for(len(course), LEAST_TURNS) if workers is None else min(workers, len(course))
    if count <= 1:
        return drive_over_topics(policy, course, robot, backend_name, on_progress=on_progress, **options)
    common = {"policy": str(policy), "robot": robot, "backend_name": backend_name, **options}
    shares = [
        {**common, "course": course.take(index), "first": int(index[0])}
        for index in np.array_split(np.arange(len(course)), count)
    ]
    parts = in_processes(drive_over_topics, shares, len(course), on_progress)
    return NavigationRecord.joined(parts, wall_s=max(part.wall_s for part in parts))


class _Worlds(Worlds):
    """The maps of a course, with the people who walk there."""

    def __init__(self, name: str, robot: WheeledBase, course: Course, seed: int) -> None:
        self._course = course
        self._walkers: Walkers | None = None
        self._walked_s = 0.0  # of the present period
        super().__init__(name, robot, seed, PHYSICS_HZ)

    def world(self, number: int) -> World:
        world, way = world_of(self._course.pool.maps[number]), self._course.take(slice(number, number + 1))
        if way.movers is None:
            return world
        self._walkers = Walkers(way.movers, way.pool, self.robot, 1.0 / self.robot.control_rate_hz)
        self._walked_s = 0.0
        return peopled(world, self._walkers.people[0])

    def start(self, number: int) -> Array:
        return self._course.pool.starts[number].astype(float)

    def step(self, duration_s: float) -> None:
        period_s = 1.0 / self.robot.control_rate_hz
        if self._walkers is not None and self._walked_s < 1e-9 and self.last:
            self._walkers.step(self.pose[None], self.twist[None])
            move(self._inner.simulation.engine, self._walkers.people[0])
        self._walked_s = 0.0 if self._walked_s + duration_s > period_s - 1e-9 else self._walked_s + duration_s
        super().step(duration_s)

    def people(self, pose: Array) -> tuple[Array, float] | None:
        """Return the people (P, 5) and how near, m, they came since the last call to a robot at a pose (3,).

        None: the course has none. Call it once a period.
        """
        if self._walkers is None:
            return None
        return self._walkers.people[0], float(self._walkers.gap(pose[None])[0])


@dataclass(frozen=True)
class _Goals:
    """What is sent to where."""

    goal_position: Array
    goal_yaw: Array
    path: None = None


class _Recorder(Recorder):
    """Drives a course: a turn is a way."""

    def __init__(self, course: Course, worlds: _Worlds, arrival_m: float, on_progress: OnProgress | None) -> None:
        super().__init__(worlds, len(course), on_progress)
        self._course, self._arrival_m = course, arrival_m
        goals = course.pool.goals.astype(float)
        self._goal = goals
        self._sent_goals = _Goals(np.column_stack([goals[:, :2], np.zeros(len(goals))]), goals[:, 2])
        count = len(course)
        steps = int(np.ceil(course.limit_s.max() * self.rate_hz)) + 1
        widths = {"pose": 3, "twist": 3, "command": 2}
        self._record = {name: np.full((steps, count, width), np.nan) for name, width in widths.items()}
        self._clearance = np.full((steps, count), np.nan)
        self._people: dict[str, Any] = {}
        if course.movers is not None:
            many = course.movers.people.shape[1] // CIRCLE_ROWS
            self._people["people_m"] = np.full((steps, count), np.nan)
            self._people["people"] = np.full((steps, count, many, 3), np.nan, dtype=np.float32)
        self._ending, self._time_s = np.full(count, "", dtype="<U12"), np.array(course.limit_s)

    def prepare(self, node: Any) -> None:
        self._goals = GoalPublisher(node, self._sent_goals)

    def announce(self) -> None:
        self._goals.send_goal(self.turn)

    def commanded(self, sent: Signals) -> None:
        self._record["command"][self.period, self.turn] = sent.get("twist", np.zeros(2))

    def keep(self) -> bool:
        i, k, now_s = self.turn, self.period, self.period / self.rate_hz
        pose = self.worlds.pose
        clearance = clearance_at(self.worlds.robot, self._course.pool.maps[i], pose)
        if (near := self.worlds.people(pose)) is not None:
            people, gap_m = near
            self._people["people_m"][k, i], self._people["people"][k, i] = gap_m, people[:, :3]
            clearance = min(clearance, gap_m)
        self._record["pose"][k, i], self._record["twist"][k, i] = pose, self.worlds.twist
        self._clearance[k, i] = clearance
        ends = (
            ("collided", clearance < 0.0),
            ("arrived", bool(np.linalg.norm(pose[:2] - self._goal[i, :2]) < self._arrival_m)),
            ("timed out", now_s >= self._course.limit_s[i] - 1e-9),
        )
        for word, over in ends:
            if over:
                self._ending[i], self._time_s[i] = word, now_s
                return True
        return False

    def drives(self, name: str, simulator: str, wall_s: float) -> NavigationRecord:
        """Return what was driven."""
        return NavigationRecord(
            driver=name,
            simulator=simulator,
            rate_hz=self.rate_hz,
            pose=self._record["pose"],
            twist=self._record["twist"],
            command=self._record["command"],
            clearance_m=self._clearance,
            ending=self._ending,
            time_s=self._time_s,
            shortest_m=self._course.pool.shortest_m.astype(float),
            labels=self._course.kinds,
            wall_s=wall_s,
            people_m=self._people.get("people_m"),
            people=self._people.get("people"),
            interventions=self.interventions,
            latency_s=self.latency_s,
        )
