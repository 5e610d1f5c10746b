"""How much of unknown floors bases see, second by second, that drive: classical explorers, or one led by a policy.

A simulator drives and scans; what is seen is what the explorer's own occupancy grid knows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation.frontier import FrontierPlanner
from rlstack.control.navigation.occupancy import OccupancyGrids
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames
from rlstack.sim.bases.parameters import nominal
from rlstack.sim.bases.simulator import BaseSimulator
from rlstack.sim.grids.sites import reachable
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.grid import frame_of
from rlstack.sim.maps.pool import MOST_BOXES, MOST_CIRCLES, pool_of
from rlstack.verification.courses import Course
from rlstack.verification.fleets import Fleet, fleet
from rlstack.verification.flock import BATCH
from rlstack.verification.records import ExplorationRecord

SHARE = 0.9
"""Of what is to be seen: the time until then is compared."""

_POINTS_M = 0.1
"""Between the places by which coverage is counted."""


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
    """Let ``explorer`` drive N bases, each over a floor of its own, from the floor's start.

    Args:
        explorer: Is reset first.
        robot: What drives.
        maps: N floors.
        duration_s: Of all drives, whole seconds.
        simulator: The batch simulator, or a backend with an engine.
        seed: Of the sensors' noise.
        name: Of the explorer, for reports.
    """
    begin = time.monotonic()
    count, rate_hz = len(maps), explorer.planner.settings.rate_hz
    most = [max(1, *(len(getattr(drawn, name)) for drawn in maps)) for name in ("boxes", "circles")]
    pool = pool_of(maps, boxes=max(most[0], MOST_BOXES), circles=max(most[1], MOST_CIRCLES), fields=False)
    course = Course(pool, nominal(robot, count), np.full(count, float(duration_s)))
    robots = fleet(simulator, robot, course, rate_hz, seed)
    places = [floor_places(drawn, robot.radius_m) for drawn in maps]
    explorer.reset(count)
    coverage = np.zeros((count, duration_s + 1))
    collided = np.zeros(count, dtype=np.bool_)
    every, poses = round(rate_hz), []
    for step in range(duration_s * every + 1):
        command = explorer.step(_signals(robots, explorer.inputs))[explorer.outputs[0]]
        if step % every == 0:
            coverage[:, step // every] = [known_share(explorer.guide.grids, n, there) for n, there in enumerate(places)]
        poses.append(np.where(collided[:, None], np.nan, robots.pose()))
        collided |= robots.clearance() < 0.0
        command[collided] = 0.0
        if isinstance(robots, BaseSimulator):
            robots.stop(collided)
        robots.step(command)
    robots.close()
    return ExplorationRecord(
        simulator=BATCH if simulator == BATCH else f"{simulator} (in process)",
        rate_hz=rate_hz,
        driver=name,
        wall_s=time.monotonic() - begin,
        coverage=coverage,
        done=coverage[:, -1] >= SHARE,
        contacts=collided.astype(np.intp),
        pose=np.stack(poses),
    )


def _signals(robots: Fleet, names: Sequence[str]) -> dict[str, Array]:
    pose, twist = robots.pose(), robots.twist()
    level = np.zeros((len(pose), 1))
    given: dict[str, Any] = {
        "position": np.concatenate([pose[:, :2], level], axis=1),
        "orientation": frames.from_yaw(pose[:, 2]),
        "linear_velocity": np.concatenate([twist[:, :2], level], axis=1),
        "angular_velocity": np.concatenate([level, level, twist[:, 2:]], axis=1),
        "scan": robots.scan(),
    }
    return {name: given[name] for name in names if name in given}


def floor_places(drawn: FloorMap, radius_m: float) -> Array:
    """Return places (P, 2) m, on a fine grid, that the middle of the base can get to."""
    frame = frame_of(drawn.size_m, _POINTS_M)
    free = frame.distance(drawn.boxes, drawn.circles) > radius_m
    row, column = frame.cells(drawn.start[:2])[0]
    start = np.array([row * frame.shape[1] + column])
    there = reachable(~free[None], start).reshape(frame.shape)
    return frame.points(np.argwhere(there))


def known_share(grids: OccupancyGrids, robot: int, places: Array) -> float:
    """Return the share of places whose cells one robot's grid knows."""
    side = grids.settings.cells
    cell = np.floor(places / grids.settings.resolution_m).astype(np.intp) - grids.corner[robot]
    inside = ((cell >= 0) & (cell < side)).all(axis=1)
    column, row = np.clip(cell, 0, side - 1).T
    return float((grids.seen[robot][row, column] & inside).mean())
