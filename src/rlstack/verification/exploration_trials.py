"""Exploration trials in process: in grid worlds, and on floors by robots with a lidar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.control.navigation.frontier import FrontierPlanner
from rlstack.control.navigation.occupancy import OccupancyGrids
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.simulation_vector import CrowdVector, wheeled_base_vector
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.parameters import nominal
from rlstack.sim.batch_wheeled_base.simulator import planar_signals
from rlstack.sim.grids.simulator import Sites, reachable
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.occupancy_grid import grid_frame
from rlstack.sim.maps.pool import MOST_BOXES, MOST_CIRCLES, pool_of
from rlstack.sim.vector import BATCH, where_in_process
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.runner import Driver, Trials, run, run_batches
from rlstack.verification.trial_records import ExplorationRecord

SHARE = 0.9
"""Coverage up to which times are compared."""

_POINTS_M = 0.1
"""Spacing of the points that measure coverage."""


def explore_grids(
    explorer: Driver, expedition: ExplorationSetting, sites: Sites, steps: int | None = None, name: str = ""
) -> ExplorationRecord:
    """Run ``explorer`` on N sites, each alone.

    A rover sent into an occupied cell stays where it is, and the step counts as a crash.

    Args:
        explorer: The explorer, which is reset first.
        expedition: The setting.
        sites: The grid worlds.
        steps: Number of steps; default: the setting's. The record has this length even if all finish earlier.
        name: Name of the explorer, for reports.

    Raises:
        UserError: A waypoint is not the centre of the rover's cell or of a neighbouring one.
    """

    def run_batch(some: Sites, seed: int) -> ExplorationRecord:
        rovers = _Rovers(expedition, some, expedition.steps if steps is None else steps)
        run(explorer, rovers)
        return ExplorationRecord(
            simulator=BATCH,
            rate_hz=1.0,
            coverage=rovers.coverage,
            done=np.asarray(rovers.coverage[:, -1] > expedition.enough),
            contacts=rovers.crashed,
            moves=True,
            enough=expedition.enough,
        )

    return run_batches(run_batch, sites, BATCH, name=name)


class _Rovers(Trials):
    """Grid worlds explored together; a trial is over when coverage suffices."""

    def __init__(self, expedition: ExplorationSetting, sites: Sites, steps: int) -> None:
        super().__init__(len(sites), 1.0)
        self._setting, self._total, self._steps = expedition, sites.total, steps
        self._worlds = expedition.worlds(len(sites))
        self._worlds.place(np.arange(len(sites)), sites.occupied, sites.start)
        self.coverage = np.empty((len(sites), steps + 1))
        self.crashed = np.zeros(len(sites), dtype=np.intp)

    def observe(self, k: int) -> Mask:
        self.coverage[:, k:] = (self._worlds.known() / self._total)[:, None]
        return (self.coverage[:, k] > self._setting.enough) | (k == self._steps)

    def signals(self, names: Sequence[str]) -> Mapping[str, Array]:
        return self._setting.inputs(self._worlds)

    def step(self, command: Array, over: Mask) -> None:
        choice = self._setting.choice(self._worlds, command)
        if (choice < -1).any():
            raise UserError(
                "A waypoint leads to a cell that is not beside the rover's. On grids, give the centre of one that is."
            )
        self.crashed += self._worlds.move(np.maximum(choice, 0), ~over & (choice >= 0))


def explore_floors(
    driver: FrontierPlanner,
    trials: Sequence[FloorMap],
    robot: WheeledBase,
    *,
    duration_s: int,
    simulator: str = BATCH,
    **options: Any,
) -> ExplorationRecord:
    """Let an explorer drive N bases with a lidar, each on a floor of its own, from the floor's start.

    Coverage is what the explorer's occupancy grid knows.

    Args:
        driver: The explorer, which is reset first.
        trials: N floors.
        robot: The robot.
        duration_s: Duration of all drives, whole seconds.
        simulator: The batch simulator, or a backend with an engine.
        options: Options of :func:`rlstack.verification.runner.run_batches`: ``batch_size``, ``name``, ``seed``,
            ``first``, ``on_progress``.

    Raises:
        UserError: The simulator is unknown or not installed.
    """
    rate_hz = driver.planner.settings.rate_hz

    def run_batch(maps: Sequence[FloorMap], seed: int) -> ExplorationRecord:
        most = [max(1, *(len(getattr(drawn, name)) for drawn in maps)) for name in ("boxes", "circles")]
        pool = pool_of(maps, boxes=max(most[0], MOST_BOXES), circles=max(most[1], MOST_CIRCLES), fields=False)
        parameters = nominal(robot, len(maps))
        robots = wheeled_base_vector(simulator, robot, len(maps), rate_hz, pool=pool, parameters=parameters, seed=seed)
        floors = _Floors(driver, robots, [floor_places(drawn, robot.radius_m) for drawn in maps], rate_hz, duration_s)
        run(driver, floors)
        return ExplorationRecord(
            simulator="",
            rate_hz=rate_hz,
            coverage=floors.coverage,
            done=floors.coverage[:, -1] >= SHARE,
            contacts=floors.collided.astype(np.intp),
            pose=np.stack(floors.poses),
        )

    return run_batches(run_batch, trials, where_in_process(simulator), **options)


class _Floors(Trials):
    """Floors explored together; a robot stops for good at its first contact."""

    last_command = True

    def __init__(
        self,
        explorer: FrontierPlanner,
        robots: CrowdVector,
        places: Sequence[Array],
        rate_hz: float,
        duration_s: int,
    ) -> None:
        super().__init__(len(places), rate_hz)
        self._explorer, self._robots, self._places = explorer, robots, places
        self._every, self._periods = round(rate_hz), duration_s * round(rate_hz)
        self.coverage = np.zeros((len(places), duration_s + 1))
        self.collided = np.zeros(len(places), dtype=np.bool_)
        self.poses: list[Array] = []

    def observe(self, k: int) -> Mask:
        self._pose = self._robots.pose()
        self.poses.append(np.where(self.collided[:, None], np.nan, self._pose))
        return np.full(len(self), k == self._periods)

    def signals(self, names: Sequence[str]) -> dict[str, Array]:
        sensed = {**planar_signals(self._pose, self._robots.twist()), "scan": self._robots.scan()}
        return {name: sensed[name] for name in names if name in sensed}

    def command(self, k: int, command: Array) -> None:
        if k % self._every == 0:
            known = self._explorer.global_planner.grids
            self.coverage[:, k // self._every] = [known_share(known, n, there) for n, there in enumerate(self._places)]
        self.collided |= self._robots.clearance() < 0.0

    def step(self, command: Array, over: Mask) -> None:
        self._robots.stop(self.collided)
        self._robots.step(np.where(self.collided[:, None], 0.0, command))

    def close(self) -> None:
        self._robots.close()


def floor_places(drawn: FloorMap, radius_m: float) -> Array:
    """Return points (P, 2) m, on a fine grid, that the base's centre can reach."""
    frame = grid_frame(drawn.size_m, _POINTS_M)
    free = frame.distance(drawn.boxes, drawn.circles) > radius_m
    row, column = frame.cells(drawn.start[:2])[0]
    start = np.array([row * frame.shape[1] + column])
    there = reachable(~free[None], start).reshape(frame.shape)
    return frame.points(np.argwhere(there))


def known_share(grids: OccupancyGrids, robot: int, places: Array) -> float:
    """Return the share of points whose cells are known in one robot's grid."""
    side = grids.settings.cells
    cell = np.floor(places / grids.settings.resolution_m).astype(np.intp) - grids.corner[robot]
    inside = ((cell >= 0) & (cell < side)).all(axis=1)
    column, row = np.clip(cell, 0, side - 1).T
    return float((grids.seen[robot][row, column] & inside).mean())
