"""Race in a simulator over real topics, in lock step, through the nodes that are deployed; and races shared out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.parallel import OnProgress, in_processes, workers_for
from rlstack.bringup.turns import LEAST_TURNS, Recorder, Worlds, take_turns
from rlstack.interfaces.backend import Signals
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.sim.bases.race import Marshal
from rlstack.sim.maps.tracks import Track, draw_track
from rlstack.verification.flock import BATCH
from rlstack.verification.racing import PHYSICS_HZ, SLOW_M_S, Book, race
from rlstack.verification.records import RaceRecord
from rlstack.verification.report import OVER_TOPICS
from rlstack.verification.yardstick import yardstick

LEAST, LEAST_IN_ENGINES = 10, 2
"""Races that a further process is worth, in the batch simulator and in an engine."""


def race_in_parallel(
    policy: Path | None,
    seeds: Sequence[int],
    robot: WheeledBase,
    simulator: str,
    *,
    name: str,
    rate_hz: float,
    laps: int,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> RaceRecord:
    """Race in process, in as many processes as are worth it.

    Args:
        policy: The policy file; None: the yardstick drives.
        seeds: Of the tracks, N.
        robot: What drives.
        simulator: ``batch`` or a backend with an engine.
        name: Of the driver, for reports.
        rate_hz: Control rate.
        laps: Of each race.
        seed: Of the sensors' noise.
        on_progress: Called with the races driven and their total.

    Raises:
        UserError: The simulator is not installed, or casadi for the yardstick.
    """
    batched = simulator == BATCH
    workers = workers_for(len(seeds), LEAST if batched else LEAST_IN_ENGINES)
    common: dict[str, Any] = {"policy": policy, "robot": robot, "simulator": simulator, "rate_hz": rate_hz}
    common |= {"name": name, "laps": laps, "at_once": len(seeds) if batched else 1}
    # noise is a whole race's: who drives which share changes nothing
    shares = [
        {**common, "seeds": [int(seeds[k]) for k in part], "noise": seed + int(part[0])}
        for part in np.array_split(np.arange(len(seeds)), workers)
    ]
    begin = time.monotonic()
    if len(shares) == 1:
        parts = [race_share(**shares[0], on_progress=on_progress)]
    else:
        parts = in_processes(race_share, shares, len(seeds), on_progress)
    return RaceRecord.joined(parts, time.monotonic() - begin)


def race_share(
    policy: Path | None,
    seeds: Sequence[int],
    robot: WheeledBase,
    simulator: str,
    name: str,
    rate_hz: float,
    laps: int,
    at_once: int,
    noise: int,
    on_progress: OnProgress | None = None,
) -> RaceRecord:
    """Race on tracks, ``at_once`` together, and tell how many are done; the others as of :func:`race_in_parallel`."""
    done: list[RaceRecord] = []
    loaded = None if policy is None else load_policy(policy, robot=robot)
    for first in range(0, len(seeds), at_once):
        tracks = [draw_track(number) for number in seeds[first : first + at_once]]
        driver = yardstick(tracks, robot) if loaded is None else loaded
        options: dict[str, Any] = {
            "name": name,
            "rate_hz": rate_hz,
            "laps": laps,
            "simulator": simulator,
            "seed": noise + first,
        }
        done.append(race(driver, tracks, robot, **options))
        if on_progress is not None:
            on_progress(first + len(tracks), len(seeds))
    return RaceRecord.joined(done)


def race_over_topics(
    policy: str | Path,
    seeds: Sequence[int],
    robot: WheeledBase,
    backend_name: str = "mujoco",
    *,
    name: str,
    laps: int,
    robot_name: str = "",
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> RaceRecord:
    """Drive every race, one after the other, through the policy node and the guard of a deployment.

    Args:
        policy: The policy file.
        seeds: Of the tracks, N.
        robot: What drives.
        backend_name: A simulator.
        name: Of the driver, for reports.
        laps: Of each race.
        robot_name: The name or file that the nodes load; empty takes the robot's name.
        seed: Of the sensors' noise, with the race's number.
        first: The number of the first race.
        on_progress: Called after every race with those done and their total.

    Raises:
        UserError: The backend cannot do this, a node ended, or a command did not come.
    """
    tracks = [draw_track(number) for number in seeds]
    worlds = _Tracks(backend_name, robot, tracks, seed + first)
    recorder = _Recorder(worlds, tracks, laps, on_progress)
    wall_s = take_turns(policy, "", robot_name or robot.name, backend_name, worlds, recorder)
    where = f"{backend_name} {OVER_TOPICS}"
    races = RaceRecord.joined([book.race(where, name, 0.0) for book in recorder.books], wall_s)
    return replace(races, interventions=recorder.interventions, latency_s=recorder.latency_s)


def race_over_topics_in_parallel(
    policy: str | Path,
    seeds: Sequence[int],
    robot: WheeledBase,
    backend_name: str,
    *,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> RaceRecord:
    """Do what :func:`race_over_topics` does, in as many processes as are worth it.

    Raises:
        UserError: As there; the first to fail ends all.
    """
    count = workers_for(len(seeds), LEAST_TURNS)
    if count <= 1:
        return race_over_topics(policy, seeds, robot, backend_name, on_progress=on_progress, **options)
    common = {"policy": str(policy), "robot": robot, "backend_name": backend_name, **options}
    shares = [
        {**common, "seeds": [int(seeds[k]) for k in part], "first": int(part[0])}
        for part in np.array_split(np.arange(len(seeds)), count)
    ]
    parts: list[RaceRecord] = in_processes(race_over_topics, shares, len(seeds), on_progress)
    return RaceRecord.joined(parts, max(part.wall_s for part in parts))


class _Tracks(Worlds):
    """A track for each race."""

    def __init__(self, name: str, robot: WheeledBase, tracks: Sequence[Track], seed: int) -> None:
        self._titles = [track.title for track in tracks]
        super().__init__(name, robot, seed, PHYSICS_HZ)

    def world(self, number: int) -> str:
        return self._titles[number]

    def start(self, number: int) -> Array:
        return np.zeros(3)


class _Recorder(Recorder):
    """Drives races: a turn is one of them."""

    def __init__(self, worlds: _Tracks, tracks: Sequence[Track], laps: int, on_progress: OnProgress | None) -> None:
        super().__init__(worlds, len(tracks), on_progress)
        self.books = [Book([track], laps, self.rate_hz) for track in tracks]
        self._marshals = [Marshal([track], worlds.robot) for track in tracks]
        self._periods = [round(track.length_m * laps / SLOW_M_S * self.rate_hz) for track in tracks]

    def prepare(self, node: Any) -> None:
        """Nothing is to be said: who races knows no goal."""

    def announce(self) -> None:
        """Nothing is to be said."""

    def commanded(self, sent: Signals) -> None:
        """Races keep no commands."""

    def keep(self) -> bool:
        book, marshal, pose = self.books[self.turn], self._marshals[self.turn], self.worlds.pose[None]
        if self.period == 0:
            marshal.start()
        come_m = marshal.follow(pose[:, :2]) if self.period else np.zeros(1)
        book.write(come_m, marshal.clearance(pose), pose, self.worlds.twist[None, 0])
        return bool(book.over[0]) or self.period >= self._periods[self.turn]
