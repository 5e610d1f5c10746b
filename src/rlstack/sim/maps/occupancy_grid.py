"""Occupancy grids of maps, in the layout of nav_msgs/OccupancyGrid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array, Mask
from rlstack.sim.maps.floor_map import FloorMap, distance

CELL_M = 0.1
"""Default cell size for a robot of 0.1 to 0.2 m radius, m."""

OCCUPIED, FREE = 100, 0
"""Values of known cells in a nav_msgs/OccupancyGrid."""


@dataclass(frozen=True)
class GridFrame:
    """Position and size of a grid's cells."""

    resolution_m: float
    """Cell size, m."""
    origin_m: tuple[float, float]
    """x and y of the outer corner of cell [0, 0], m."""
    shape: tuple[int, int]
    """Number of rows, along y, and columns, along x."""

    @property
    def x(self) -> Array:
        """x of the column centres (columns,), m."""
        return self.origin_m[0] + self.resolution_m * np.arange(0.5, self.shape[1], dtype=np.float64)

    @property
    def y(self) -> Array:
        """y of the row centres (rows,), m."""
        return self.origin_m[1] + self.resolution_m * np.arange(0.5, self.shape[0], dtype=np.float64)

    def cells(self, points: ArrayLike) -> NDArray[np.intp]:
        """Return row and column (N, 2) of the cells that contain points (N, 2), clamped to the grid."""
        at = (np.atleast_2d(np.asarray(points, dtype=float)) - self.origin_m) / self.resolution_m
        rows = np.clip(np.floor(at[:, 1]), 0, self.shape[0] - 1)
        return np.stack([rows, np.clip(np.floor(at[:, 0]), 0, self.shape[1] - 1)], axis=1).astype(np.intp)

    def points(self, cells: ArrayLike) -> Array:
        """Return x, y (N, 2) of the centres of cells (N, 2), m."""
        found = np.atleast_2d(np.asarray(cells))
        return np.stack([self.x[found[:, 1]], self.y[found[:, 0]]], axis=1)

    def distance(self, boxes: Array, circles: Array) -> Array:
        """Return the signed distance (rows, columns) of the cell centres to the nearest obstacle, m."""
        return distance(boxes, circles, self.x[None, :], self.y[:, None])


@dataclass(frozen=True, eq=False)
class OccupancyGrid:
    """An occupancy grid."""

    frame: GridFrame
    occupied: Mask
    """(rows, columns)."""

    @property
    def data(self) -> NDArray[np.int8]:
        """The cells in the format of nav_msgs/OccupancyGrid, row after row: 0 free, 100 occupied."""
        return np.where(self.occupied, OCCUPIED, FREE).astype(np.int8).ravel()


def grid_frame(size_m: tuple[float, float], resolution_m: float) -> GridFrame:
    """Return the smallest frame about the origin that covers a floor of that size."""
    columns, rows = (math.ceil(side / resolution_m - 1e-6) for side in size_m)
    return GridFrame(resolution_m, (-columns * resolution_m / 2.0, -rows * resolution_m / 2.0), (rows, columns))


def occupancy(drawn: FloorMap, resolution_m: float = 0.05) -> OccupancyGrid:
    """Return the occupancy grid of a map: a cell is occupied if an obstacle reaches a micrometre or more into it."""
    frame = grid_frame(drawn.size_m, resolution_m)
    x, y, half = frame.x[None, :], frame.y[:, None], resolution_m / 2.0 - 1e-6
    occupied: Mask = np.zeros(frame.shape, dtype=bool)
    for cx, cy, half_x, half_y, yaw in drawn.boxes:
        c, s = abs(math.cos(yaw)), abs(math.sin(yaw))
        dx, dy = x - cx, y - cy
        u, v = math.cos(yaw) * dx + math.sin(yaw) * dy, math.cos(yaw) * dy - math.sin(yaw) * dx
        # separating axis theorem: two rectangles are disjoint if and only if they are along one of their sides
        aligned = (np.abs(dx) < c * half_x + s * half_y + half) & (np.abs(dy) < s * half_x + c * half_y + half)
        turned = half * (c + s)
        occupied |= aligned & (np.abs(u) < half_x + turned) & (np.abs(v) < half_y + turned)
    for cx, cy, radius in drawn.circles:
        dx, dy = (np.maximum(np.abs(a - b) - half, 0.0) for a, b in ((x, cx), (y, cy)))
        occupied |= dx**2 + dy**2 < radius**2
    return OccupancyGrid(frame, occupied)
