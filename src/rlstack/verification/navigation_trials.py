"""Navigation trials in process: policies and planners drive from start to goal, many robots at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.errors import UserError
from rlstack.interfaces.signals import FAR_M, SENSED
from rlstack.interfaces.topics import PEOPLE, SCAN
from rlstack.kinds.wheeled_base.simulation_vector import (
    goal_signals,
    people_signals,
    wheeled_base_vector,
)
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.perception.people import PeopleTracker, TrackerSettings
from rlstack.sim.batch_wheeled_base.simulator import planar_signals
from rlstack.sim.vector import BATCH
from rlstack.verification.departures import NOMINAL, Departures, departed
from rlstack.verification.navigation_episodes import NavigationEpisodes
from rlstack.verification.runner import Driver, Rows, Trials, gave_up, input_names, run, run_batches
from rlstack.verification.trial_records import NavigationRecord

BATCH_SIZE = 250
"""Robots that a policy drives together in the batch simulator; a batch runs until its last robot has ended."""

_NOBODY = [FAR_M, 0.0, 0.01, 0.0, 0.0]
"""A person out of reach, for drivers that sense people where there are none."""


def drive(
    driver: Any,
    trials: NavigationEpisodes,
    robot: WheeledBase,
    *,
    rate_hz: float,
    arrival_m: float,
    simulator: str = BATCH,
    batch_size: int | None = None,
    departures: Departures = NOMINAL,
    **options: Any,
) -> NavigationRecord:
    """Run every navigation episode and record it.

    A drive ends with arrival, at the first contact, or at its time limit; it then counts as given up if the driver's
    ``status`` reports no path, since a planner without one may find one later.

    Args:
        driver: A policy, or a planner with ``inputs`` and perhaps a ``status``.
        trials: N episodes.
        robot: The robot.
        rate_hz: Control rate.
        arrival_m: Goal tolerance.
        simulator: ``batch``, or a backend with an engine.
        batch_size: Robots simulated together; None: :data:`BATCH_SIZE` in the batch simulator, one in others.
        departures: Departures of signals and commands, unknown to the driver.
        options: Further options of :func:`rlstack.verification.runner.run_batches`: ``name``, ``seed``, ``first``,
            ``on_progress``.
    """

    def run_batch(part: NavigationEpisodes, seed: int) -> NavigationRecord:
        drives = _Drives(part, robot, simulator, rate_hz, arrival_m, seed, driver)
        run(driver, departed(drives, departures, seed))
        return drives.log.record()

    many = batch_size or (BATCH_SIZE if simulator == BATCH else 1)
    return run_batches(run_batch, trials, simulator, batch_size=many, **options)


class NavigationLog:
    """Records poses, commands and the endings of N drives; used in process and over topics.

    Args:
        course: N episodes.
        arrival_m: Goal tolerance.
        rate_hz: Control rate.
    """

    def __init__(self, course: NavigationEpisodes, arrival_m: float, rate_hz: float) -> None:
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
        """Record n drives after ``k`` periods; return (n,) which of them are over.

        Args:
            rows: Indices of the n drives.
            k: Periods since the start.
            pose: (n, 3) x and y in m, yaw in rad.
            twist: (n, 3) m/s, m/s, rad/s.
            clearance: (n,) m, distance to static obstacles.
            people: (n, P, 5) as in :class:`rlstack.sim.crowds.simulator.CrowdSimulator`; None: no people.
            people_m: (n,) m, distance to the nearest person.
            gave_up: (n,) whether the driver reports no path, which counts at the time limit.
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
        """Record the commands (n, width) from sample ``k`` on."""
        self._keep("command", rows, k, command)

    def record(self) -> NavigationRecord:
        """Return the record of the drives."""
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
        """Record an array (n, ...), except for drives that have ended."""
        if name not in self._arrays:
            self._arrays[name] = self._empty(array, float)
        over = (self._ending[rows] != "") & (self._time_s[rows] < k / self._rate_hz)
        self._arrays[name][k, rows] = np.where(over.reshape(-1, *[1] * (array.ndim - 1)), np.nan, array)

    def _empty(self, like: Array, kind: Any) -> Array:
        return np.full((self.steps + 1, len(self._ending), *like.shape[1:]), np.nan, dtype=kind)


class _Drives(Trials):
    """The episodes of a course, simulated together."""

    last_command = True

    def __init__(
        self,
        course: NavigationEpisodes,
        robot: WheeledBase,
        simulator: str,
        rate_hz: float,
        arrival_m: float,
        seed: int,
        driver: Driver,
    ) -> None:
        super().__init__(len(course), rate_hz)
        options: dict[str, Any] = {"pool": course.pool, "parameters": course.parameters, "people": course.movers}
        self._goal, self._driver = course.pool.goals.astype(float), driver
        self.log = NavigationLog(course, arrival_m, rate_hz)
        names = input_names(driver)
        tracker = people_tracker(robot, len(course)) if course.tracked and senses_people(names) else None
        self._robots = wheeled_base_vector(simulator, robot, len(course), rate_hz, seed=seed, **options)
        self._sensors = NavigationSensors(self._robots, names, rate_hz, tracker)

    def observe(self, k: int) -> Mask:
        robots = self._robots
        self._pose, self._twist, clearance = robots.pose(), robots.twist(), robots.clearance()
        arrays = self._pose, self._twist, clearance, robots.people(), robots.people_m()
        return self.log.observe(slice(None), k, *arrays, gave_up=gave_up(self._driver, len(self)))

    def signals(self, names: Sequence[str]) -> dict[str, Array]:
        return self._sensors.signals(self._pose, self._twist, self._goal)

    def command(self, k: int, command: Array) -> None:
        self.log.command(slice(None), k, command)

    def waiting(self, command: Array) -> Array:
        return np.zeros_like(command)  # they start at rest

    def step(self, command: Array, over: Mask) -> None:
        self._robots.step(np.where(over[:, None], 0.0, command))

    def close(self) -> None:
        """Release the simulator."""
        self._robots.close()


class SensedBases(Protocol):
    """N bases whose sensors :class:`NavigationSensors` reads."""

    def scan(self) -> Array:
        """Return (N, rays) m, all finite."""

    def people(self) -> Array | None:
        """Return (N, P, 5) place, radius and velocity of people, m and m/s; None: no people."""


class NavigationSensors:
    """Computes the signals that a driver receives.

    Args:
        robots: The robots.
        names: The required signals.
        rate_hz: Control rate.
        tracker: Tracks people in the scans; None: the driver receives the ground truth.

    Raises:
        UserError: A signal is not available to bases that navigate.
    """

    def __init__(
        self, robots: SensedBases, names: Sequence[str], rate_hz: float, tracker: PeopleTracker | None = None
    ) -> None:
        self._robots, self._names, self._period_s, self._tracker = robots, tuple(names), 1.0 / rate_hz, tracker
        self._people = senses_people(names)

    def signals(self, pose: Array, twist: Array, goal: Array) -> dict[str, Array]:
        """Return the current signals, (N, ...) each; call it once per period.

        Args:
            pose: (N, 3) x and y in m, yaw in rad.
            twist: (N, 3) m/s, m/s, rad/s.
            goal: (N, 3) as ``pose``.
        """
        known = {**planar_signals(pose, twist), **goal_signals(goal)}
        if SCAN in self._names or self._tracker is not None:
            known[SCAN] = self._robots.scan()
        if self._tracker is not None:
            self._tracker.update(known[SCAN], pose, self._period_s)
            known |= self._tracker.signals()
        elif self._people:
            people = self._robots.people()
            known |= people_signals(np.tile(_NOBODY, (len(pose), 1, 1)) if people is None else people)
        if missing := [name for name in self._names if name not in known]:
            raise UserError(f"The driver needs the signal '{missing[0]}', which bases do not sense on a course.")
        return {name: known[name] for name in self._names}


def senses_people(names: Sequence[str]) -> bool:
    """Return whether any of some signals is about people."""
    return any(name in SENSED and SENSED[name].topic == PEOPLE for name in names)


def people_tracker(robot: WheeledBase, count: int, settings: TrackerSettings | None = None) -> PeopleTracker:
    """Return a tracker of people in the scans of N robots.

    Raises:
        UserError: The robot has no lidar for it.
    """
    if SCAN not in robot.lidars:
        raise UserError(f"{robot.name} has no lidar called '{SCAN}' to track people in.")
    lidar = robot.lidars[SCAN]
    mount = lidar.position_m[0], lidar.position_m[1], lidar.rpy_rad[2]
    return PeopleTracker(lidar.angles_rad, lidar.range_max_m, count, mount, settings)
