"""Races: laps by whoever drives, a policy or a controller, in the batch simulator or in an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.simulation_vector import planar_signals, race_vector
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.tracks import Track
from rlstack.sim.vector import BATCH, where_in_process
from rlstack.verification.drive import wanted
from rlstack.verification.records import RaceRecord

SLOW_M_S = 1.5
"""A car that is slower than this from the start to the end of its time is given up."""


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
    cars = race_vector(simulator, robot, tracks, rate_hz, parameters=parameters, seed=seed)
    log, names = RaceLog(tracks, laps, rate_hz), wanted(driver)
    driver.reset(len(tracks))
    for _ in range(round(max(t.length_m for t in tracks) * laps / SLOW_M_S * rate_hz)):
        pose, twist = cars.pose(), cars.twist()
        log.observe(cars.come_m, cars.clearance(), pose, twist[:, 0])
        if log.over.all():
            break
        command = driver.step(signals(names, pose, twist, cars.scan))["twist"]
        cars.step(np.where(log.over[:, None], 0.0, command))
    cars.close()
    return log.record(where_in_process(simulator), name, time.monotonic() - begin)


def signals(names: Sequence[str], pose: Array, twist: Array, scan: Callable[[], Array]) -> dict[str, Array]:
    """Return what cars sense, by the names of signals, (N, ...).

    Raises:
        UserError: The name of something that cars do not sense, such as a goal.
    """
    given: dict[str, Callable[[], Array]] = {
        **{name: lambda array=array: array for name, array in planar_signals(pose, twist).items()},  # type: ignore[misc]
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
