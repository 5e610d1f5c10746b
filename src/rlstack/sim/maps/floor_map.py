"""A map of a mobile base: obstacles on a floor, a start and a goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array

HEIGHT_M = 0.6
"""Height of all obstacles when a map becomes a world, m: above the lidars of the shipped bases."""


@dataclass(frozen=True, eq=False)
class FloorMap:
    """Obstacles from above, a start and a goal, in a frame (ENU) with its origin at the centre of the floor.

    Boxes close the floor on all sides. The same kind, seed, difficulty and radius give the same map.
    """

    kind: str
    """Its generator, one of :data:`rlstack.sim.maps.generators.MAP_GENERATORS`."""
    seed: int
    difficulty: float
    """Difficulty from 0, easy, to 1."""
    radius_m: float
    """Radius of the robot's bounding cylinder, m."""
    size_m: tuple[float, float]
    """Extents along x and y, outer walls included, m."""
    boxes: Array
    """(B, 5): x, y of the centre, half extents along the box's own x and y, m; yaw, rad."""
    circles: Array
    """(C, 3): x, y, radius, m."""
    start: Array
    """(3,): x, y, m, and yaw, rad."""
    goal: Array
    """(3,): x, y, m, and yaw, rad."""
    shortest_m: float
    """Length of the shortest path from start to goal for a disc of ``radius_m``, m."""

    def __post_init__(self) -> None:
        for name in ("boxes", "circles", "start", "goal"):
            getattr(self, name).setflags(write=False)

    @property
    def title(self) -> str:
        """Kind and seed, such as ``maze:7``."""
        return f"{self.kind}:{self.seed}"

    def distance(self, points: ArrayLike) -> Array:
        """Return the signed distance (N,) in m of points (N, 2) to the nearest obstacle; negative inside one."""
        x, y = np.atleast_2d(np.asarray(points, dtype=float)).T
        return distance(self.boxes, self.circles, x, y)


def distance(boxes: Array, circles: Array, x: Array, y: Array) -> Array:
    """Return the signed distance in m from points to the nearest box (B, 5) or circle (C, 3); inf if there is none.

    Args:
        boxes: As in :class:`FloorMap`.
        circles: As in :class:`FloorMap`.
        x: x of the points, m; broadcasts with ``y``, as a grid's column and row do.
        y: y of the points, m.
    """
    squared = np.full(np.broadcast_shapes(x.shape, y.shape), np.inf)
    for box in boxes:
        u, v = _beside(box, x, y)
        np.minimum(squared, np.maximum(u, 0.0) ** 2 + np.maximum(v, 0.0) ** 2, out=squared)
    near = np.sqrt(squared)
    inside = np.nonzero(near == 0.0)
    if len(inside[0]):
        x_in, y_in = (np.broadcast_to(a, near.shape)[inside] for a in (x, y))
        near[inside] = np.min([np.maximum(*_beside(box, x_in, y_in)) for box in boxes], axis=0)
    for cx, cy, radius in circles:
        np.minimum(near, np.sqrt((x - cx) ** 2 + (y - cy) ** 2) - radius, out=near)
    return near


def _beside(box: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Return by how much points exceed a box's sides along its own x and y, m; negative between the sides."""
    cx, cy, half_x, half_y, yaw = box
    u, v = x - cx, y - cy
    if yaw:
        c, s = np.cos(yaw), np.sin(yaw)
        u, v = c * u + s * v, c * v - s * u
    return np.abs(u) - half_x, np.abs(v) - half_y
