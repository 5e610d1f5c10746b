"""Exploration trials with a lidar robot: in process, spread over worker processes, and over ROS topics in lock step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.episode_runner import EpisodeRecorder, run_episodes
from rlstack.bringup.parallel import OnProgress, run_trials
from rlstack.control.navigation import EXPLORER, PLANNERS
from rlstack.control.navigation.driver import Motion, Scanner
from rlstack.control.navigation.occupancy import OccupancyGrids
from rlstack.interfaces.backend import Capture
from rlstack.interfaces.laser_scans import finite_ranges
from rlstack.kinds.wheeled_base.simulation_vector import PHYSICS_HZ, clearance_at
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.world import world_of
from rlstack.sim.vector import BATCH
from rlstack.sim.world import World
from rlstack.verification.episode_simulator import NewWorlds
from rlstack.verification.exploration_floors import SHARE, drive_explorer, floor_places, known_share
from rlstack.verification.records import ExplorationRecord
from rlstack.verification.runner import in_batches

TOGETHER = 6
"""Batch size of robots in the batch simulator."""


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
    """Let a planner explore floors in as many worker processes as pay off.

    Args:
        planner: Its name; ``explorer_policy`` uses the policy file in the options.
        maps: The floors, N.
        robot: The base.
        simulator: ``batch`` or a backend with an engine.
        duration_s: Duration of each, whole seconds.
        name: Name of the explorer, for reports.
        options: Options of the planner.
        seed: Seed of the sensors' noise.
        on_progress: Called with the number of floors done and the total.

    Raises:
        UserError: The planner refuses the options or the robot, or the simulator is not installed.
    """
    together = TOGETHER if simulator == BATCH else 1
    return run_trials(
        _explore_share,
        maps,
        least=together,
        on_progress=on_progress,
        planner=planner,
        robot=robot,
        simulator=simulator,
        duration_s=duration_s,
        name=name,
        planned=dict(options or {}),
        together=together,
        seed=seed,
    )


def _explore_share(
    planner: str,
    trials: Sequence[FloorMap],
    robot: WheeledBase,
    planned: Mapping[str, Any],
    together: int,
    seed: int,
    first: int,
    on_progress: OnProgress | None,
    **options: Any,
) -> ExplorationRecord:
    explorer = PLANNERS.load(planner)(robot, **planned)

    def some(part: slice) -> ExplorationRecord:
        return drive_explorer(explorer, robot, trials[part], seed=seed + first + part.start, **options)

    return ExplorationRecord.joined(in_batches(some, len(trials), together, on_progress))


def explore_over_topics(
    policy: str | Path,
    trials: Sequence[FloorMap],
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
    """Explore every floor in sequence through the planner node that a policy leads and the guard.

    Coverage is that of an occupancy grid from the robot node's scans.

    Args:
        policy: The policy file.
        trials: The floors, N.
        robot: The base.
        backend_name: A simulator.
        duration_s: Duration of each, whole seconds.
        name: Name of the explorer, for reports.
        robot_name: The name or file that the nodes load; empty for the robot's name.
        seed: Seed of the sensors' noise, combined with the floor's number.
        first: The number of the first floor.
        on_progress: Called after every floor with the number done and the total.

    Raises:
        UserError: The backend does not support this, a node exited, or a command did not arrive.
    """
    simulator = _Floors(backend_name, robot, trials, seed + first)
    recorder = _Recorder(simulator, trials, duration_s, policy, on_progress)
    found = run_episodes(policy, robot_name or robot.name, backend_name, recorder, driver=EXPLORER)
    return ExplorationRecord(
        **found,
        driver=name,
        coverage=recorder.coverage,
        done=recorder.coverage[:, -1] >= SHARE,
        contacts=recorder.contacts,
        pose=recorder.poses,
    )


class _Floors(NewWorlds):
    """A floor for each exploration; stores the lidar's scans and poses."""

    def __init__(self, name: str, robot: WheeledBase, maps: Sequence[FloorMap], seed: int) -> None:
        self._maps = maps
        self.seen: list[tuple[Array, Array]] = []
        """Poses (3,) and ranges (rays,) m since the last retrieval."""
        super().__init__(name, robot, len(maps), seed, PHYSICS_HZ)

    def world(self, number: int) -> World:
        """Return the floor as a world."""
        return world_of(self._maps[number])

    def start(self, number: int) -> Array:
        """Return the floor's start."""
        return np.asarray(self._maps[number].start, dtype=float)

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


class _Recorder(EpisodeRecorder):
    """Records an occupancy grid of the scans; an episode is a floor."""

    def __init__(
        self,
        simulator: _Floors,
        maps: Sequence[FloorMap],
        duration_s: int,
        policy: str | Path,
        on_progress: OnProgress | None,
    ) -> None:
        super().__init__(simulator, on_progress)
        self._maps, self._every = maps, round(self.rate_hz)
        self._places = [floor_places(drawn, simulator.robot.radius_m) for drawn in maps]
        # the same grid as in the planner that drives
        grids = PLANNERS.load(EXPLORER)(simulator.robot, policy=str(policy)).global_planner.grids
        self._scanner = Scanner(simulator.robot.lidars["scan"])
        self._grids = OccupancyGrids(self._scanner, grids.settings)
        self._periods = duration_s * self._every
        self.coverage = np.zeros((len(maps), duration_s + 1))
        self.contacts = np.zeros(len(maps), dtype=np.intp)
        self.poses = np.full((self._periods + 1, len(maps), 3), np.nan)

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
            self.coverage[i, second] = known_share(self._grids, 0, self._places[i])
        pose = self.simulator.pose
        self.poses[k, i] = pose
        self.contacts[i] = clearance_at(self.simulator.robot, self._maps[i], pose) < 0.0
        over = bool(self.contacts[i]) or k >= self._periods
        if over:
            self.coverage[i, second + 1 :] = self.coverage[i, second]
        return over
