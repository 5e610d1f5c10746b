"""Trials of wheeled bases over ROS topics, in lock step: one recorder each for navigation, races and exploration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.episode_runner import EpisodeRecorder, StillGoals
from rlstack.control.navigation.occupancy import GridSettings, OccupancyGrids
from rlstack.control.navigation.planner_interface import Motion, Scanner
from rlstack.interfaces.backend import Capture, Signals
from rlstack.interfaces.scan_messages import finite_ranges
from rlstack.kinds.wheeled_base.simulation_vector import PHYSICS_HZ, RACE_PHYSICS_HZ, clearance_at
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.race import TrackProgress
from rlstack.sim.crowds.simulator import CrowdSimulator, move_pedestrians, with_pedestrians
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.tracks import Track
from rlstack.sim.world import World
from rlstack.sim.world_generators.floor_map import world_of
from rlstack.verification.episode_simulator import NewWorlds
from rlstack.verification.exploration_trials import SHARE, floor_places, known_share
from rlstack.verification.navigation_episodes import NavigationEpisodes
from rlstack.verification.navigation_trials import NavigationLog
from rlstack.verification.race_trials import SLOW_M_S, RaceLog
from rlstack.verification.trial_records import ExplorationRecord, NavigationRecord, RaceRecord


class NavigationRecorder(EpisodeRecorder):
    """Records drives, each in a new world with the episode's people, if any, whom a people node reports to the driver.

    Args:
        arrival_m: Distance from the goal that counts as arrival.

    The other arguments are those of :func:`rlstack.bringup.episode_runner.run_episodes`.
    """

    def __init__(
        self,
        backend_name: str,
        robot: WheeledBase,
        trials: NavigationEpisodes,
        *,
        seed: int,
        first: int,
        arrival_m: float,
    ) -> None:
        super().__init__(_PeopledMaps(backend_name, robot, trials, seed + first))
        goals = trials.pool.goals.astype(float)
        self.goals = StillGoals(np.column_stack([goals[:, :2], np.zeros(len(goals))]), goals[:, 2])
        self._log, self._maps = NavigationLog(trials, arrival_m, self.rate_hz), trials.pool.maps

    def commanded(self, sent: Signals) -> None:
        """Record the command."""
        self._log.command([self.episode], self.period, sent.get("twist", np.zeros(2))[None])

    def record(self) -> bool:
        """Record the state; return whether the episode is over."""
        i, pose = self.episode, self.simulator.pose
        clearance = clearance_at(self.simulator.robot, self._maps[i], pose)
        people, gap_m = self.simulator.people(pose)
        arrays = pose[None], self.simulator.twist[None], np.array([clearance])
        return bool(self._log.observe([i], self.period, *arrays, people, gap_m)[0])

    def result(self) -> NavigationRecord:
        """Return the record of all episodes."""
        return self._log.record()


class _PeopledMaps(NewWorlds):
    """The maps of navigation episodes, with the people in them."""

    def __init__(self, name: str, robot: WheeledBase, trials: NavigationEpisodes, seed: int) -> None:
        self._trials = trials
        self._walkers: CrowdSimulator | None = None
        self._walked_s = 0.0  # of the present period
        worlds = [world_of(drawn) for drawn in trials.pool.maps]
        super().__init__(name, robot, worlds, trials.pool.starts.astype(float), seed, PHYSICS_HZ)

    def world(self, number: int) -> World | str:
        world, episode = self._worlds[number], self._trials.take(slice(number, number + 1))
        if episode.movers is None:
            return world
        assert isinstance(world, World)
        self._walkers = CrowdSimulator(
            episode.movers, episode.pool.boxes, episode.pool.circles, self.robot, 1.0 / self.robot.control_rate_hz
        )
        self._walked_s = 0.0
        return with_pedestrians(world, self._walkers.people[0])

    def step(self, duration_s: float) -> None:
        period_s = 1.0 / self.robot.control_rate_hz
        if self._walkers is not None and self._walked_s < 1e-9 and self.state:
            self._walkers.step(self.pose[None], self.twist[None])
            move_pedestrians(self.backend.simulation.engine, self._walkers.people[0])
        self._walked_s = 0.0 if self._walked_s + duration_s > period_s - 1e-9 else self._walked_s + duration_s
        super().step(duration_s)

    def people(self, pose: Array) -> tuple[Array, Array] | tuple[None, None]:
        """Return the people (1, P, 5), and their smallest distance (1,), m, to a robot at (3,) since the last call.

        None if the episodes have none. Call it once per period.
        """
        return (None, None) if self._walkers is None else (self._walkers.people, self._walkers.gap(pose[None]))


class RaceRecorder(EpisodeRecorder):
    """Records races, each on a track of its own.

    Args:
        laps: Laps of each race.

    The other arguments are those of :func:`rlstack.bringup.episode_runner.run_episodes`.
    """

    def __init__(
        self,
        backend_name: str,
        robot: WheeledBase,
        trials: Sequence[Track],
        *,
        seed: int,
        first: int,
        laps: int,
    ) -> None:
        titles = [track.title for track in trials]
        super().__init__(NewWorlds(backend_name, robot, titles, None, seed + first, RACE_PHYSICS_HZ))
        self._logs = [RaceLog([track], laps, self.rate_hz) for track in trials]
        self._progress = [TrackProgress([track], robot) for track in trials]
        self._periods = [round(track.length_m * laps / SLOW_M_S * self.rate_hz) for track in trials]

    def record(self) -> bool:
        """Record the state; return whether the episode is over."""
        i, pose = self.episode, self.simulator.pose[None]
        log, progress = self._logs[i], self._progress[i]
        if self.period == 0:
            progress.start()
        progress_m = progress.follow(pose[:, :2]) if self.period else np.zeros(1)
        log.observe(progress_m, progress.clearance(pose), pose, self.simulator.twist[None, 0])
        return bool(log.over[0]) or self.period >= self._periods[i]

    def result(self) -> RaceRecord:
        """Return the record of all episodes."""
        return RaceRecord.joined([log.record() for log in self._logs])


class ExplorationRecorder(EpisodeRecorder):
    """Records what an occupancy grid of the robot node's scans knows of each floor.

    Args:
        duration_s: Duration of each, whole seconds.
        grids: Settings of the planner's occupancy grid.

    The other arguments are those of :func:`rlstack.bringup.episode_runner.run_episodes`.
    """

    def __init__(
        self,
        backend_name: str,
        robot: WheeledBase,
        trials: Sequence[FloorMap],
        *,
        seed: int,
        first: int,
        duration_s: int,
        grids: GridSettings,
    ) -> None:
        super().__init__(_ScannedFloors(backend_name, robot, trials, seed + first))
        self._maps, self._every = trials, round(self.rate_hz)
        self._places = [floor_places(drawn, robot.radius_m) for drawn in trials]
        self._scanner = Scanner(robot.lidars["scan"])
        self._grids = OccupancyGrids(self._scanner, grids)
        self._periods = duration_s * self._every
        self._coverage = np.zeros((len(trials), duration_s + 1))
        self._contacts = np.zeros(len(trials), dtype=np.intp)
        self._poses = np.full((self._periods + 1, len(trials), 3), np.nan)

    def record(self) -> bool:
        """Add the last period's scans; end after contact or at the time limit."""
        i, k = self.episode, self.period
        if k == 0:
            self._grids.reset()
        for (x, y, yaw), ranges in self.simulator.seen:
            here = Motion(np.array([[x, y]]), np.array([yaw]), np.zeros(1), np.zeros(1))
            self._grids.update(here, self._scanner.read(ranges[None]))
        self.simulator.seen.clear()
        second = k // self._every
        if k % self._every == 0:
            self._coverage[i, second] = known_share(self._grids, 0, self._places[i])
        pose = self.simulator.pose
        self._poses[k, i] = pose
        self._contacts[i] = clearance_at(self.simulator.robot, self._maps[i], pose) < 0.0
        over = bool(self._contacts[i]) or k >= self._periods
        if over:
            self._coverage[i, second + 1 :] = self._coverage[i, second]
        return over

    def result(self) -> ExplorationRecord:
        """Return the record of all episodes."""
        return ExplorationRecord(
            simulator="",
            rate_hz=self.rate_hz,
            coverage=self._coverage,
            done=self._coverage[:, -1] >= SHARE,
            contacts=self._contacts,
            pose=self._poses,
        )


class _ScannedFloors(NewWorlds):
    """Floors, with the poses and lidar scans since the last retrieval."""

    def __init__(self, name: str, robot: WheeledBase, trials: Sequence[FloorMap], seed: int) -> None:
        self.seen: list[tuple[Array, Array]] = []
        """Poses (3,) and ranges (rays,) m since the last retrieval."""
        starts = np.array([drawn.start for drawn in trials])
        super().__init__(name, robot, [world_of(drawn) for drawn in trials], starts, seed, PHYSICS_HZ)

    def enter(self, number: int) -> None:
        """Switch to another floor."""
        self.seen.clear()
        super().enter(number)

    def capture(self, name: str) -> Capture:
        """Return a capture of a camera or lidar."""
        capture = super().capture(name)
        if name == "scan" and self.state:
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
