"""Exploration of floors in process, by robots with a lidar; coverage is what the explorer's occupancy grid knows."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.control.navigation.frontier import FrontierPlanner
from rlstack.control.navigation.occupancy import OccupancyGrids
from rlstack.kinds.wheeled_base.simulation_vector import PeopledVector, base_vector
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.parameters import nominal
from rlstack.sim.bases.simulator import planar_signals
from rlstack.sim.grids.sites import reachable
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.grid import frame_of
from rlstack.sim.maps.pool import MOST_BOXES, MOST_CIRCLES, pool_of
from rlstack.sim.vector import BATCH, where_in_process
from rlstack.verification.records import ExplorationRecord
from rlstack.verification.runner import Trials, run

SHARE = 0.9
"""Coverage up to which times are compared."""

_POINTS_M = 0.1
"""Spacing of the points that measure coverage."""


def drive_explorer(
    explorer: FrontierPlanner,
    robot: WheeledBase,
    maps: Sequence[FloorMap],
    duration_s: int,
    *,
    simulator: str = BATCH,
    seed: int = 0,
    name: str = "",
) -> ExplorationRecord:
    """Let ``explorer`` drive N bases, each on a floor of its own, from the floor's start.

    Args:
        explorer: The explorer, which is reset first.
        robot: The robot.
        maps: N floors.
        duration_s: Duration of all drives, whole seconds.
        simulator: The batch simulator, or a backend with an engine.
        seed: Seed of the sensors' noise.
        name: Name of the explorer, for reports.
    """
    begin = time.monotonic()
    count, rate_hz = len(maps), explorer.planner.settings.rate_hz
    most = [max(1, *(len(getattr(drawn, name)) for drawn in maps)) for name in ("boxes", "circles")]
    pool = pool_of(maps, boxes=max(most[0], MOST_BOXES), circles=max(most[1], MOST_CIRCLES), fields=False)
    robots = base_vector(simulator, robot, count, rate_hz, pool=pool, parameters=nominal(robot, count), seed=seed)
    floors = _Floors(explorer, robots, [floor_places(drawn, robot.radius_m) for drawn in maps], rate_hz, duration_s)
    try:
        run(explorer, floors)
    finally:
        robots.close()
    return ExplorationRecord(
        simulator=where_in_process(simulator),
        rate_hz=rate_hz,
        driver=name,
        wall_s=time.monotonic() - begin,
        coverage=floors.coverage,
        done=floors.coverage[:, -1] >= SHARE,
        contacts=floors.collided.astype(np.intp),
        pose=np.stack(floors.poses),
    )


class _Floors(Trials):
    """Floors explored together; a robot stops for good at its first contact."""

    last_command = True

    def __init__(
        self,
        explorer: FrontierPlanner,
        robots: PeopledVector,
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


def floor_places(drawn: FloorMap, radius_m: float) -> Array:
    """Return points (P, 2) m, on a fine grid, that the base's centre can reach."""
    frame = frame_of(drawn.size_m, _POINTS_M)
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
