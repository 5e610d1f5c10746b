"""Explore floors with a lidar robot: shared out over processes in process, and over real topics in lock step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.parallel import OnProgress, in_processes, workers_for
from rlstack.bringup.turns import LEAST_TURNS, Recorder, Worlds, take_turns
from rlstack.control.navigation import PLANNERS
from rlstack.control.navigation.driver import Motion, Scanner
from rlstack.control.navigation.occupancy import OccupancyGrids
from rlstack.interfaces.backend import Capture, Signals
from rlstack.interfaces.scan_data import finite_ranges
from rlstack.kinds.wheeled_base.deployment import EXPLORER
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.world import world_of
from rlstack.sim.world import World
from rlstack.verification.exploration_drives import SHARE, drive_explorer, floor_places, known_share
from rlstack.verification.fleets import PHYSICS_HZ, clearance_at
from rlstack.verification.flock import BATCH
from rlstack.verification.records import ExplorationRecord
from rlstack.verification.report import OVER_TOPICS

TOGETHER = 6
"""Robots in the batch simulator at once."""


def explore_in_parallel(
    planner: str,
    maps: Sequence[FloorMap],
    robot: WheeledBase,
    simulator: str,
    duration_s: int,
    *,
    name: str,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> ExplorationRecord:
    """Let a planner explore floors in process, in as many processes as are worth it.

    Args:
        planner: Its name; ``explorer_policy`` is led by the policy file among the options.
        maps: The floors, N.
        robot: What drives.
        simulator: ``batch`` or a backend with an engine.
        duration_s: Of each, whole seconds.
        name: Of the explorer, for reports.
        options: Of the planner.
        seed: Of the sensors' noise.
        on_progress: Called with the floors explored and their total.

    Raises:
        UserError: The planner refuses the options or the robot, or the simulator is not installed.
    """
    together = TOGETHER if simulator == BATCH else 1
    common: dict[str, Any] = {"planner": planner, "robot": robot, "simulator": simulator, "duration_s": duration_s}
    common |= {"name": name, "options": dict(options or {}), "together": together}
    shares = [
        {**common, "maps": [maps[k] for k in part], "noise": seed + int(part[0])}
        for part in np.array_split(np.arange(len(maps)), workers_for(len(maps), together))
    ]
    begin = time.monotonic()
    if len(shares) == 1:
        parts = [explore_share(**shares[0], on_progress=on_progress)]
    else:
        parts = in_processes(explore_share, shares, len(maps), on_progress)
    return ExplorationRecord.joined(parts, time.monotonic() - begin)


def explore_share(
    planner: str,
    maps: Sequence[FloorMap],
    robot: WheeledBase,
    simulator: str,
    duration_s: int,
    name: str,
    options: Mapping[str, Any],
    together: int,
    noise: int,
    on_progress: OnProgress | None = None,
) -> ExplorationRecord:
    """Explore floors, ``together`` at once, and tell how many are done; others as of :func:`explore_in_parallel`."""
    explorer, done = PLANNERS.load(planner)(robot, **options), []
    for first in range(0, len(maps), together):
        some = maps[first : first + together]
        done.append(
            drive_explorer(explorer, robot, some, duration_s, simulator=simulator, seed=noise + first, name=name)
        )
        if on_progress is not None:
            on_progress(first + len(some), len(maps))
    return ExplorationRecord.joined(done)


def explore_over_topics(
    policy: str | Path,
    maps: Sequence[FloorMap],
    robot: WheeledBase,
    backend_name: str,
    duration_s: int,
    *,
    name: str,
    robot_name: str = "",
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> ExplorationRecord:
    """Explore every floor, one after the other, through the planner node that a policy leads and the guard.

    What is seen is what an occupancy grid made of the scans that the robot node sent knows.

    Args:
        policy: The policy file.
        maps: The floors, N.
        robot: What drives.
        backend_name: A simulator.
        duration_s: Of each, whole seconds.
        name: Of the explorer, for reports.
        robot_name: The name or file that the nodes load; empty takes the robot's name.
        seed: Of the sensors' noise, with the floor's number.
        first: The number of the first floor.
        on_progress: Called after every floor with those done and their total.

    Raises:
        UserError: The backend cannot do this, a node ended, or a command did not come.
    """
    worlds = _Floors(backend_name, robot, maps, seed + first)
    recorder = _Recorder(worlds, maps, duration_s, policy, on_progress)
    wall_s = take_turns(policy, EXPLORER, robot_name or robot.name, backend_name, worlds, recorder)
    return ExplorationRecord(
        driver=name,
        rate_hz=recorder.rate_hz,
        simulator=f"{backend_name} {OVER_TOPICS}",
        coverage=recorder.coverage,
        done=recorder.coverage[:, -1] >= SHARE,
        contacts=recorder.collided.astype(np.intp),
        wall_s=wall_s,
        interventions=recorder.interventions,
        latency_s=recorder.latency_s,
        pose=recorder.poses,
    )


def explore_over_topics_in_parallel(
    policy: str | Path,
    maps: Sequence[FloorMap],
    robot: WheeledBase,
    backend_name: str,
    duration_s: int,
    *,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> ExplorationRecord:
    """Do what :func:`explore_over_topics` does, in as many processes as are worth it.

    Raises:
        UserError: As there; the first to fail ends all.
    """
    count = workers_for(len(maps), LEAST_TURNS)
    if count <= 1:
        return explore_over_topics(policy, maps, robot, backend_name, duration_s, on_progress=on_progress, **options)
    common = {"policy": str(policy), "robot": robot, "backend_name": backend_name, "duration_s": duration_s, **options}
    shares = [
        {**common, "maps": [maps[k] for k in part], "first": int(part[0])}
        for part in np.array_split(np.arange(len(maps)), count)
    ]
    parts: list[ExplorationRecord] = in_processes(explore_over_topics, shares, len(maps), on_progress)
    return ExplorationRecord.joined(parts, max(part.wall_s for part in parts))


class _Floors(Worlds):
    """A floor for each expedition; keeps what the lidar saw, and from where."""

    def __init__(self, name: str, robot: WheeledBase, maps: Sequence[FloorMap], seed: int) -> None:
        self._maps = maps
        self.seen: list[tuple[Array, Array]] = []
        """Poses (3,) and ranges (rays,) m that have come since somebody took them."""
        super().__init__(name, robot, seed, PHYSICS_HZ)

    def world(self, number: int) -> World:
        """Return the floor as a world."""
        return world_of(self._maps[number])

    def start(self, number: int) -> Array:
        """Return the floor's start."""
        return np.asarray(self._maps[number].start, dtype=float)

    def enter(self, number: int) -> None:
        """Go on on another floor."""
        self.seen.clear()
        super().enter(number)

    def capture(self, name: str) -> Capture:
        """Return what a camera or lidar sees."""
        capture = super().capture(name)
        if name == "scan" and self.last:
            lidar = self.robot.lidars["scan"]
            ranges = finite_ranges(
                capture.arrays["ranges"][None],
                increment_rad=lidar.angle_increment_rad,
                range_min_m=lidar.range_min_m,
                range_max_m=lidar.range_max_m,
                turns=lidar.angle_increment_rad * lidar.rays > 2.0 * np.pi - 1e-3,
            )
            self.seen.append((self.pose, ranges[0]))
        return capture


class _Recorder(Recorder):
    """Explores: a turn is a floor."""

    def __init__(
        self,
        worlds: _Floors,
        maps: Sequence[FloorMap],
        duration_s: int,
        policy: str | Path,
        on_progress: OnProgress | None,
    ) -> None:
        super().__init__(worlds, len(maps), on_progress)
        self._maps, self._every = maps, round(self.rate_hz)
        self._places = [floor_places(drawn, worlds.robot.radius_m) for drawn in maps]
        # the grid of the very planner that drives
        grids = PLANNERS.load(EXPLORER)(worlds.robot, policy=str(policy)).guide.grids
        self._scanner = Scanner(worlds.robot.lidars["scan"])
        self._grids = OccupancyGrids(self._scanner, grids.settings)
        self._periods = duration_s * self._every
        self.coverage = np.zeros((len(maps), duration_s + 1))
        self.collided = np.zeros(len(maps), dtype=np.bool_)
        self.poses = np.full((self._periods + 1, len(maps), 3), np.nan)

    def prepare(self, node: Any) -> None:
        """Nothing is to be said: who explores knows no goal."""

    def announce(self) -> None:
        """Nothing is to be said."""

    def commanded(self, sent: Signals) -> None:
        """Expeditions keep no commands."""

    def keep(self) -> bool:
        """Add what was seen since the last period; end after contact or when time is over."""
        i, k = self.turn, self.period
        if k == 0:
            self._grids.reset()
        for (x, y, yaw), ranges in self.worlds.seen:
            here = Motion(np.array([[x, y]]), np.array([yaw]), np.zeros(1), np.zeros(1))
            self._grids.update(here, self._scanner.read(ranges[None]))
        self.worlds.seen.clear()
        second = k // self._every
        if k % self._every == 0:
            self.coverage[i, second] = known_share(self._grids, 0, self._places[i])
        pose = self.worlds.pose
        self.poses[k, i] = pose
        self.collided[i] = clearance_at(self.worlds.robot, self._maps[i], pose) < 0.0
        over = bool(self.collided[i]) or k >= self._periods
        if over:
            self.coverage[i, second + 1 :] = self.coverage[i, second]
        return over
