"""Driving a course in a simulator, in process: a policy file or a classical planner, many robots at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.control.navigation import Status
from rlstack.kinds.wheeled_base.simulation_vector import PeopledVector, base_vector
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.vector import BATCH
from rlstack.verification.courses import Course
from rlstack.verification.records import NavigationRecord
from rlstack.verification.senses import Senses

Rows: TypeAlias = slice | Sequence[int]


class Driver(Protocol):
    """Whoever drives: a policy or a planner for N robots at once."""

    inputs: tuple[str, ...]
    """Names of the signals that it wants."""

    def reset(self, batch: int = 1) -> None:
        """Forget everything, for ``batch`` robots."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the command by name for inputs with a leading batch axis."""


def drive(
    driver: Any,
    course: Course,
    robot: WheeledBase,
    *,
    rate_hz: float,
    arrival_m: float,
    name: str,
    simulator: str = BATCH,
    at_once: int | None = None,
    seed: int = 0,
    first: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> NavigationRecord:
    """Drive every way of a course and record it.

    A drive ends with arrival, at the first contact, or when its time is over: then the driver gave up if its
    ``status`` says that there is no way, for a planner that found none may find one later.

    Args:
        driver: A :class:`Driver`, or a loaded policy.
        course: N ways.
        robot: What drives.
        rate_hz: Control rate.
        arrival_m: Nearer to the goal than this is there.
        name: Of the driver, for reports.
        simulator: ``batch``, or a backend with an engine.
        at_once: Robots driven together; None: 250 in the batch simulator, one in others.
        seed: Of the sensors' noise, with the way's number.
        first: The number of the first way, which is a multiple of ``at_once``.
        on_progress: Called with the ways driven and their total.
    """
    parts, many = [], at_once or (250 if simulator == BATCH else 1)
    for done in range(0, len(course), many):
        some = course.take(slice(done, done + many))
        robots = base_vector(
            simulator,
            robot,
            len(some),
            rate_hz,
            pool=some.pool,
            parameters=some.parameters,
            people=some.movers,
            seed=seed + first + done,
        )
        try:
            parts.append(_drive(driver, some, robot, robots, rate_hz, arrival_m, name, simulator))
        finally:
            robots.close()
        if on_progress is not None:
            on_progress(done + len(some), len(course))
    return NavigationRecord.joined(parts)


def wanted(driver: Any) -> tuple[str, ...]:
    """Return the names of the signals that a driver wants."""
    contract = getattr(driver, "contract", None)
    return driver.inputs if contract is None else tuple(port.name for port in contract.inputs)


class NavigationLog:
    """Keeps poses, commands and how each of N drives ends; used in process and over topics.

    Args:
        course: N ways.
        arrival_m: Nearer to the goal than this is there.
        rate_hz: Control rate.
    """

    def __init__(self, course: Course, arrival_m: float, rate_hz: float) -> None:
        self._course, self._arrival_m, self._rate_hz = course, arrival_m, rate_hz
        self._goal, count = course.pool.goals.astype(float), len(course)
        self.steps = int(np.ceil(course.limit_s.max() * rate_hz))
        """Periods of the longest drive."""
        self._arrays: dict[str, Array] = {}
        self._last = 0
        self._ending, self._time_s = np.full(count, "", dtype="<U12"), np.array(course.limit_s)

    def observe(
        self,
        rows: Rows,
        k: int,
        pose: Array,
        twist: Array,
        clearance: Array,
        people: Array | None = None,
        people_m: Array | None = None,
        gave_up: Mask | bool = False,
    ) -> Mask:
        """Record the present of some drives, after ``k`` periods; return (n,) which of them are over.

        Args:
            rows: n of the ways.
            k: Periods since the start.
            pose: (n, 3) x and y in m, yaw in rad.
            twist: (n, 3) m/s, m/s, rad/s.
            clearance: (n,) m, to what stands.
            people: (n, P, 5) as in :class:`rlstack.sim.bases.pedestrians.Pedestrians`; None: there are none.
            people_m: (n,) m to the nearest of them.
            gave_up: (n,) whose driver says that there is no way, which counts when its time is over.
        """
        now, limit_s = k / self._rate_hz, self._course.limit_s[rows]
        if people_m is not None:
            clearance = np.minimum(clearance, people_m)
        late = now >= limit_s - 1e-9
        ending = self._ending[rows]
        for which, word in (
            (clearance < 0.0, "collided"),
            (np.linalg.norm(pose[:, :2] - self._goal[rows, :2], axis=1) < self._arrival_m, "arrived"),
            (late & gave_up, "gave up"),
            (late, "timed out"),
        ):
            new = which & (ending == "")
            ending[new] = word
            self._time_s[np.arange(len(self._time_s))[rows][new]] = now
        self._ending[rows] = ending
        self._last = max(self._last, k)
        for name, array in (("pose", pose), ("twist", twist), ("clearance_m", clearance), ("people_m", people_m)):
            if array is not None:
                self._keep(name, rows, k, array)
        if people is not None:
            kept = self._arrays.setdefault("people", self._empty(people[..., :3], np.float32))
            kept[k, rows] = people[..., :3]
        return np.asarray(ending != "")

    def command(self, rows: Rows, k: int, command: Array) -> None:
        """Record what was commanded (n, width) from the present on."""
        self._keep("command", rows, k, command)

    def record(self) -> NavigationRecord:
        """Return the drives."""
        arrays: dict[str, Any] = {name: array[: self._last + 1] for name, array in self._arrays.items()}
        pool = self._course.pool
        return NavigationRecord(
            simulator="",
            rate_hz=self._rate_hz,
            **arrays,
            ending=self._ending,
            time_s=self._time_s,
            shortest_m=pool.shortest_m.astype(float),
            labels=self._course.kinds,
        )

    def _keep(self, name: str, rows: Rows, k: int, array: Array) -> None:
        """Record an array (n, ...) but for drives that have ended before."""
        if name not in self._arrays:
            self._arrays[name] = self._empty(array, float)
        over = (self._ending[rows] != "") & (self._time_s[rows] < k / self._rate_hz)
        self._arrays[name][k, rows] = np.where(over.reshape(-1, *[1] * (array.ndim - 1)), np.nan, array)

    def _empty(self, like: Array, kind: Any) -> Array:
        return np.full((self.steps + 1, len(self._ending), *like.shape[1:]), np.nan, dtype=kind)


def _drive(
    driver: Any,
    course: Course,
    robot: WheeledBase,
    robots: PeopledVector,
    rate_hz: float,
    arrival_m: float,
    name: str,
    simulator: str,
) -> NavigationRecord:
    begin, count, every = time.perf_counter(), len(course), slice(None)
    goal = course.pool.goals.astype(float)
    driver.reset(count)
    senses = Senses(robots, course, robot, wanted(driver), rate_hz)
    log = NavigationLog(course, arrival_m, rate_hz)
    for step in range(log.steps + 1):
        pose, twist, clearance = robots.pose(), robots.twist(), robots.clearance()
        near = robots.people(), robots.people_m()
        ended = log.observe(every, step, pose, twist, clearance, *near, gave_up=_gave_up(driver, count))
        command = next(iter(driver.step(senses.signals(pose, twist, goal)).values()))
        log.command(every, step, command)
        if ended.all():
            break
        robots.step(np.where(ended[:, None], 0.0, command))
    return replace(log.record(), driver=name, simulator=simulator, wall_s=time.perf_counter() - begin)


def _gave_up(driver: Any, count: int) -> NDArray[np.bool_]:
    status = getattr(driver, "status", None)  # a policy has none
    return np.zeros(count, dtype=bool) if status is None else np.asarray(status == Status.UNREACHABLE)
