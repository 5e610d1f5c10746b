"""Races: laps by whoever drives, a policy or a controller, in the batch simulator or in an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Backend
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames
from rlstack.sim.bases.race import Marshal, RaceSimulator
from rlstack.sim.drives import limited_twist
from rlstack.sim.maps.tracks import Track
from rlstack.verification.flock import BATCH, engine_of, whole_steps
from rlstack.verification.records import RaceRecord

SLOW_M_S = 1.5
"""A car that is slower than this from the start to the end of its time is given up."""

PHYSICS_HZ = 500.0
"""Physics steps a second in an engine: a wheel turns 100 rad/s."""

_MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")


class Field(Protocol):
    """N cars, each alone on its track, at the start of a race."""

    come_m: Array
    """(N,) how far each has come along the middle since the start, m."""

    def step(self, command: Array) -> None:
        """Let one period pass under ``command`` (N, 2), m/s and rad/s; it comes now."""

    def pose(self) -> Array:
        """Return (N, 3): x and y in m, yaw in rad."""

    def twist(self) -> Array:
        """Return (N, 3): speed ahead and to the left, m/s, and turning speed, rad/s."""

    def scan(self) -> Array:
        """Return (N, rays) m, all finite, as in the signal ``scan``."""

    def clearance(self) -> Array:
        """Return (N,) m from each outline to the walls; below 0 it is across one."""


def race(
    driver: Any,
    tracks: Sequence[Track],
    robot: WheeledBase,
    *,
    rate_hz: float,
    laps: int = 2,
    simulator: str = BATCH,
    parameters: NDArray[np.float32] | None = None,
    seed: int = 0,
    name: str = "",
) -> RaceRecord:
    """Let N cars race at once, each alone on its track.

    Args:
        driver: A loaded policy, or a controller with ``inputs``, ``reset(batch)`` and ``step(inputs)``.
        tracks: N.
        robot: What drives.
        rate_hz: Control rate.
        laps: From rest, one after the other.
        simulator: The batch simulator, or a backend with an engine, such as ``mujoco``.
        parameters: Of the cars in the batch simulator; left out: as the robot file says.
        seed: Of the sensors' noise.
        name: Of the driver, for reports.

    Raises:
        UserError: There is no such simulator, or it is not installed; or the driver wants what cars do not sense.
    """
    begin = time.monotonic()
    field: Field
    if simulator == BATCH:
        field = RaceSimulator(robot, tracks, rate_hz=rate_hz, parameters=parameters, seed=seed)
    else:
        field = _InEngine(simulator, robot, tracks, rate_hz, seed)
    log, names = RaceLog(tracks, laps, rate_hz), wanted(driver)
    driver.reset(len(tracks))
    for _ in range(round(max(t.length_m for t in tracks) * laps / SLOW_M_S * rate_hz)):
        pose, twist = field.pose(), field.twist()
        log.observe(field.come_m, field.clearance(), pose, twist[:, 0])
        if log.over.all():
            break
        command = driver.step(signals(names, pose, twist, field.scan))["twist"]
        field.step(np.where(log.over[:, None], 0.0, command))
    where = BATCH if simulator == BATCH else f"{simulator} (in process)"
    return log.record(where, name, time.monotonic() - begin)


class _InEngine:
    """Each car in a world of its own."""

    def __init__(self, name: str, robot: WheeledBase, tracks: Sequence[Track], rate_hz: float, seed: int) -> None:
        if engine_of(name) is None:
            raise UserError(f"The backend '{name}' is not a simulator: race in batch, or in another such as mujoco.")
        rate = whole_steps(PHYSICS_HZ, rate_hz) * rate_hz
        self._robot, self._period_s, self._lidar = robot, 1.0 / rate_hz, robot.lidars["scan"]
        self._cars: list[Backend] = []
        for number, track in enumerate(tracks):
            car = BACKENDS.load(name)(robot, world=track.title, physics_rate_hz=rate, noise_seed=seed + number)
            car.connect()
            self._cars.append(car)
        self._sent = np.zeros((len(tracks), 2))
        self._marshal = Marshal(tracks, robot)
        self._marshal.start()
        self.come_m = np.zeros(len(tracks))
        self._read()

    def step(self, command: Array) -> None:
        for k, (car, wanted) in enumerate(zip(self._cars, command)):
            if not wanted.any() and not self._sent[k].any():
                continue  # out of the race
            # the guard on a robot limits acceleration; so does this
            self._sent[k] = limited_twist(self._robot, wanted, self._sent[k], self._period_s)
            car.write({"twist": self._sent[k]})
            car.step(self._period_s)
        self._read()
        self.come_m = self._marshal.follow(self.pose()[:, :2])

    def pose(self) -> Array:
        yaw = np.atleast_1d(frames.yaw(self._now["orientation"]))
        return np.concatenate([self._now["position"][:, :2], yaw[:, None]], axis=1)

    def twist(self) -> Array:
        return np.concatenate([self._now["linear_velocity"][:, :2], self._now["angular_velocity"][:, 2:]], axis=1)

    def scan(self) -> Array:
        ranges = np.stack([car.capture("scan").arrays["ranges"] for car in self._cars])
        return np.clip(ranges, self._lidar.range_min_m, self._lidar.range_max_m).astype(float)

    def clearance(self) -> Array:
        return self._marshal.clearance(self.pose())

    def _read(self) -> None:
        read = [car.read().signals for car in self._cars]
        self._now = {name: np.stack([signals[name] for signals in read]) for name in _MOTION}


def wanted(driver: Any) -> tuple[str, ...]:
    """Return the names of the signals that a driver wants."""
    contract = getattr(driver, "contract", None)
    return tuple(driver.inputs) if contract is None else tuple(port.name for port in contract.inputs)


def signals(names: Sequence[str], pose: Array, twist: Array, scan: Callable[[], Array]) -> dict[str, Array]:
    """Return what cars sense, by the names of signals, (N, ...).

    Raises:
        UserError: The name of something that cars do not sense, such as a goal.
    """
    level = np.zeros((len(pose), 1))
    given: dict[str, Callable[[], Array]] = {
        "position": lambda: np.concatenate([pose[:, :2], level], axis=1),
        "orientation": lambda: frames.from_yaw(pose[:, 2]),
        "linear_velocity": lambda: np.concatenate([twist[:, :2], level], axis=1),
        "angular_velocity": lambda: np.concatenate([level, level, twist[:, 2:]], axis=1),
        "scan": scan,
    }
    unknown = [name for name in names if name not in given]
    if unknown:
        raise UserError(f"In a race nobody is told '{unknown[0]}': cars sense {', '.join(given)}.")
    return {name: given[name]() for name in names}


class RaceLog:
    """Keeps laps, contacts and poses of N cars, a sample a period; used in process and over topics.

    Args:
        tracks: Of N cars.
        laps: That are to be driven.
        rate_hz: Samples per second.
    """

    def __init__(self, tracks: Sequence[Track], laps: int, rate_hz: float) -> None:
        count = len(tracks)
        self._tracks, self._laps, self._rate = tracks, laps, rate_hz
        self._length = np.array([t.length_m for t in tracks])
        self._done_s = np.full((count, laps + 1), np.nan)
        self._done_s[:, 0] = 0.0
        self._finished = np.zeros(count, dtype=int)
        self._come, self._step = np.zeros(count), 0
        self._contact, self._least = np.zeros(count, dtype=bool), np.full(count, np.inf)
        self._pose: list[Array] = []
        self._speed: list[Array] = []
        self.over = np.zeros(count, dtype=bool)
        """(N,) who has finished or touched."""

    def observe(self, come_m: Array, clearance_m: Array, pose: Array, speed: Array) -> None:
        """Record the present."""
        on = ~self.over
        self._pose.append(np.where(on[:, None], pose, np.nan))
        self._speed.append(np.where(on, speed, np.nan))
        self._least[on] = np.minimum(self._least, clearance_m)[on]
        self._contact |= on & (clearance_m < 0.0)
        line = (self._finished + 1) * self._length
        passed = np.flatnonzero(on & ~self._contact & (come_m >= line))
        share = (line - self._come)[passed] / (come_m - self._come)[passed]
        self._finished[passed] += 1
        self._done_s[passed, self._finished[passed]] = (self._step - 1 + share) / self._rate
        self._come, self._step = come_m, self._step + 1
        self.over = self._contact | (self._finished == self._laps)

    def record(self, simulator: str, driver: str, wall_s: float) -> RaceRecord:
        """Return the races."""
        return RaceRecord(
            simulator=simulator,
            driver=driver,
            wall_s=wall_s,
            seeds=np.array([t.seed for t in self._tracks]),
            length_m=self._length,
            lap_s=np.diff(self._done_s, axis=1),
            contact=self._contact,
            clearance_m=self._least,
            pose=np.stack(self._pose),
            speed_m_s=np.stack(self._speed),
            rate_hz=self._rate,
        )
