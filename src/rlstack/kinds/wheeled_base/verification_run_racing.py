"""Racing trials: in process, spread over worker processes, and over ROS topics in lock step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.episode_runner import EpisodeRecorder, run_episodes
from rlstack.bringup.parallel import OnProgress, run_trials
from rlstack.kinds.wheeled_base.simulation_vector import RACE_PHYSICS_HZ
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.sim.bases.race import TrackProgress
from rlstack.sim.maps.tracks import Track, draw_track
from rlstack.sim.vector import BATCH
from rlstack.verification.episode_simulator import NewWorlds
from rlstack.verification.race_baseline import race_baseline
from rlstack.verification.racing import SLOW_M_S, RaceLog, race
from rlstack.verification.records import RaceRecord
from rlstack.verification.runner import in_batches

LEAST, LEAST_IN_ENGINES = 10, 2
"""Races that justify another process, in the batch simulator and in an engine."""


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
    """Run races in as many worker processes as pay off.

    Args:
        policy: The policy file; None: the baseline drives.
        seeds: Seeds of N tracks.
        robot: The car.
        simulator: ``batch`` or a backend with an engine.
        name: Name of the driver, for reports.
        rate_hz: Control rate.
        laps: Laps of each race.
        seed: Seed of the sensors' noise.
        on_progress: Called with the number of races done and the total.

    Raises:
        UserError: The simulator is not installed, or casadi for the baseline.
    """
    batched = simulator == BATCH
    return run_trials(
        _race_share,
        seeds,
        least=LEAST if batched else LEAST_IN_ENGINES,
        on_progress=on_progress,
        policy=policy,
        robot=robot,
        simulator=simulator,
        name=name,
        rate_hz=rate_hz,
        laps=laps,
        at_once=len(seeds) if batched else 1,
        seed=seed,
    )


def _race_share(
    policy: Path | None,
    trials: Sequence[int],
    robot: WheeledBase,
    at_once: int,
    seed: int,
    first: int,
    on_progress: OnProgress | None,
    **options: Any,
) -> RaceRecord:
    loaded = None if policy is None else load_policy(policy, robot=robot)

    def some(part: slice) -> RaceRecord:
        tracks = [draw_track(number) for number in trials[part]]
        driver = race_baseline(tracks, robot) if loaded is None else loaded
        return race(driver, tracks, robot, seed=seed + first + part.start, **options)

    return RaceRecord.joined(in_batches(some, len(trials), at_once, on_progress))


def race_over_topics(
    policy: str | Path,
    trials: Sequence[int],
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
    """Drive every race in sequence through the policy node and the guard of a deployment.

    Args:
        policy: The policy file.
        trials: Seeds of N tracks.
        robot: The car.
        backend_name: A simulator.
        name: Name of the driver, for reports.
        laps: Laps of each race.
        robot_name: The name or file that the nodes load; empty for the robot's name.
        seed: Seed of the sensors' noise, combined with the race's number.
        first: The number of the first race.
        on_progress: Called after every race with the number done and the total.

    Raises:
        UserError: The backend does not support this, a node exited, or a command did not arrive.
    """
    tracks = [draw_track(number) for number in trials]
    recorder = _Recorder(_Tracks(backend_name, robot, tracks, seed + first), tracks, laps, on_progress)
    found = run_episodes(policy, robot_name or robot.name, backend_name, recorder)
    return replace(RaceRecord.joined([log.record("", name, 0.0) for log in recorder.logs]), **found)


class _Tracks(NewWorlds):
    """A track for each race."""

    def __init__(self, name: str, robot: WheeledBase, tracks: Sequence[Track], seed: int) -> None:
        self._titles = [track.title for track in tracks]
        super().__init__(name, robot, len(tracks), seed, RACE_PHYSICS_HZ)

    def world(self, number: int) -> str:
        return self._titles[number]


class _Recorder(EpisodeRecorder):
    """Records races, one per episode."""

    def __init__(self, simulator: _Tracks, tracks: Sequence[Track], laps: int, on_progress: OnProgress | None) -> None:
        super().__init__(simulator, on_progress)
        self.logs = [RaceLog([track], laps, self.rate_hz) for track in tracks]
        self._marshals = [TrackProgress([track], simulator.robot) for track in tracks]
        self._periods = [round(track.length_m * laps / SLOW_M_S * self.rate_hz) for track in tracks]

    def record(self) -> bool:
        i, pose = self.episode, self.simulator.pose[None]
        log, marshal = self.logs[i], self._marshals[i]
        if self.period == 0:
            marshal.start()
        come_m = marshal.follow(pose[:, :2]) if self.period else np.zeros(1)
        log.observe(come_m, marshal.clearance(pose), pose, self.simulator.twist[None, 0])
        return bool(log.over[0]) or self.period >= self._periods[i]
