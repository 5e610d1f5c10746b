"""Driving a course in a simulator, in process: a policy file or a classical planner, many robots at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.control.navigation import Status
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.verification.courses import Course
from rlstack.verification.fleets import Fleet, fleet
from rlstack.verification.flock import BATCH
from rlstack.verification.records import NavigationRecord
from rlstack.verification.senses import Senses


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
        robots = fleet(simulator, robot, some, rate_hz, seed + first + done)
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


def _drive(
    driver: Any,
    course: Course,
    robot: WheeledBase,
    robots: Fleet,
    rate_hz: float,
    arrival_m: float,
    name: str,
    simulator: str,
) -> NavigationRecord:
    begin, pool, count = time.perf_counter(), course.pool, len(course)
    goal = pool.goals.astype(float)
    driver.reset(count)
    senses = Senses(robots, course, robot, wanted(driver), rate_hz)
    steps = int(np.ceil(course.limit_s.max() * rate_hz))
    ending = np.full(count, "", dtype="<U12")
    ended = np.zeros(count, dtype=bool)
    time_s = np.array(course.limit_s)
    record: dict[str, list[Array]] = {"pose": [], "twist": [], "command": [], "clearance_m": []}
    crowds = []
    for step in range(steps + 1):
        pose, twist, clearance = robots.pose(), robots.twist(), robots.clearance()
        people, people_m = robots.people(), robots.people_m()
        if people_m is not None:
            clearance = np.minimum(clearance, people_m)
        now = step / rate_hz
        arrived = np.linalg.norm(pose[:, :2] - goal[:, :2], axis=1) < arrival_m
        late = now >= course.limit_s - 1e-9
        for which, word in (
            (clearance < 0.0, "collided"),
            (arrived, "arrived"),
            (late & _gave_up(driver, count), "gave up"),
            (late, "timed out"),
        ):
            new = which & ~ended
            ending[new], time_s[new] = word, now
            ended |= new
        over = ended & (time_s < now)
        command = next(iter(driver.step(senses.signals(pose, twist, goal)).values()))
        for field, array in (("pose", pose), ("twist", twist), ("command", command), ("clearance_m", clearance)):
            record[field].append(np.where(over.reshape(-1, *[1] * (array.ndim - 1)), np.nan, array))
        if people is not None and people_m is not None:
            record.setdefault("people_m", []).append(np.where(over, np.nan, people_m))
            crowds.append(people[..., :3].astype(np.float32))
        if ended.all():
            break
        robots.step(np.where(ended[:, None], 0.0, command))
    recorded: dict[str, Any] = {field: np.stack(arrays) for field, arrays in record.items()}
    recorded |= {"people": np.stack(crowds)} if crowds else {}
    return NavigationRecord(
        driver=name,
        simulator=simulator,
        rate_hz=rate_hz,
        **recorded,
        ending=ending,
        time_s=time_s,
        shortest_m=pool.shortest_m.astype(float),
        labels=course.kinds,
        wall_s=time.perf_counter() - begin,
    )


def _gave_up(driver: Any, count: int) -> NDArray[np.bool_]:
    status = getattr(driver, "status", None)  # a policy has none
    return np.zeros(count, dtype=bool) if status is None else np.asarray(status == Status.UNREACHABLE)
