"""Simulated lidars: measurements from rays cast by an engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots import Lidar, frames
from rlstack.sim.engine import Engine


def lidar_scan(
    engine: Engine,
    index: int,
    position: Array,
    orientation: Array,
    lidar: Lidar,
    random: np.random.Generator | None = None,
) -> dict[str, NDArray[Any]]:
    """Return a lidar's measurement as a :class:`rlstack.interfaces.backend.Capture`.

    Args:
        engine: The engine with the world.
        index: Index of the robot, which its own rays ignore.
        position: (3,) world position of ``base_link``, m.
        orientation: (4,) xyzw, world orientation of ``base_link``.
        lidar: The robot's lidar.
        random: Generator of noise and dropouts; None: neither.
    """
    body = frames.to_matrix(orientation)
    directions = lidar.directions.reshape(-1, 3) @ (body @ lidar.rotation).T
    origins = np.tile(position + body @ lidar.position, (len(directions), 1))
    distances = engine.cast(index, origins, np.ascontiguousarray(directions), lidar.range_max_m)
    shape = (lidar.rays,) if lidar.rings == 1 else (lidar.rings, lidar.rays)
    return {"ranges": measured_ranges(distances, lidar, random).reshape(shape)}


def measured_ranges(ideal: Array, lidar: Lidar, random: np.random.Generator | None = None) -> NDArray[np.float32]:
    """Return ranges of any shape, m, with noise, dropouts and REP-117's infinities."""
    ranges = np.array(ideal, dtype=np.float64)
    if random is not None:
        if lidar.noise_share:
            ranges *= 1.0 + lidar.noise_share * random.standard_normal(ranges.shape)
        if lidar.noise_m:
            ranges += lidar.noise_m * random.standard_normal(ranges.shape)
        if lidar.dropout:
            ranges[random.random(ranges.shape) < lidar.dropout] = np.nan
    ranges[ranges > lidar.range_max_m] = np.inf
    ranges[ranges < lidar.range_min_m] = -np.inf
    return ranges.astype(np.float32)
