"""Occupancy grids of N robots, built from their scans and odometry.

Each cell holds the log-odds of being occupied (H. Moravec, A. Elfes 1985; S. Thrun, W. Burgard, D. Fox, "Probabilistic
Robotics", 2005, chapter 9): a ray that ends in it raises them, a ray that passes lowers them. The grid is a window
of fixed size in odom that shifts by whole cells before its robot reaches the edge. Rows are y and columns are x, as in
``nav_msgs/OccupancyGrid``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.planner_interface import Motion, Scanner, ScanPoints
from rlstack.schema import value

UNKNOWN, FREE, OCCUPIED = -1, 0, 100
"""Values of ``nav_msgs/OccupancyGrid``."""

_ROOM, _STEP = 16, 40
"""Margin, in cells, around the contents of a part of a grid, and the granularity of its sides."""


@dataclass(frozen=True, kw_only=True)
class GridSettings:
    """Size of the grid and its sensor model."""

    resolution_m: float = value(0.05, unit="m", above=0.0)
    """Side of a cell."""
    cells: int = value(360, unit="cells on a side", at_least=16, at_most=4096)
    sight_m: float = value(5.0, unit="m", above=0.0)
    """Range up to which rays count."""
    rays: int = value(180, at_least=1)
    """Approximate number of rays used, evenly thinned."""
    hit: float = value(0.9, unit="log-odds", above=0.0)
    miss: float = value(-0.35, unit="log-odds", at_most=0.0)
    most: float = value(3.5, unit="log-odds", above=0.0)
    """Bound in both directions; the larger, the slower the map follows changes."""
    occupied: float = value(0.5, unit="log-odds")
    """Threshold of occupied cells; observed cells below it are free."""

    @staticmethod
    def for_body(body: BaseModel) -> GridSettings:
        """Return settings for a base's size: two and a half cells to a radius of its discs, 5 cm at least."""
        resolution = max(0.05, round(body.radius_m / 2.5, 2))
        return GridSettings(resolution_m=resolution, sight_m=100.0 * resolution)


@dataclass(frozen=True)
class Field:
    """A snapshot of N robots' grids, for planners.

    Args:
        occupied: (N, rows, columns).
        unknown: (N, rows, columns).
        origin: (N, 2) m, odom: the corner of the first cell.
        resolution_m: Side of a cell.
    """

    occupied: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    origin: Array
    resolution_m: float

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.occupied.shape[1], self.occupied.shape[2]

    def cell(self, robot: int, points: Array) -> Index:
        """Return row and column (..., 2) of points (..., 2) m in the grid of one robot, the nearest inside it."""
        found = np.floor((points - self.origin[robot]) / self.resolution_m).astype(np.intp)[..., ::-1]
        return np.clip(found, 0, np.array(self.shape) - 1)

    def centre(self, robot: int, cells: Index) -> Array:
        """Return the centres (..., 2) m, odom, of cells (..., 2) given by row and column."""
        middles: Array = self.origin[robot] + (cells[..., ::-1] + 0.5) * self.resolution_m
        return middles


class OccupancyGrids:
    """Grids of N robots that grow with every scan.

    Args:
        scanner: Scanner of the robots' lidar.
        settings: Size and weights.
    """

    def __init__(self, scanner: Scanner, settings: GridSettings) -> None:
        self.settings = settings
        lidar = scanner.lidar
        self._stride = max(1, round(lidar.rays / settings.rays))
        self.sight_m = min(lidar.range_max_m, settings.sight_m)
        steps = int(np.ceil(self.sight_m / settings.resolution_m))
        self._along = ((np.arange(steps) + 0.5) * settings.resolution_m).astype(np.float32)
        rays = scanner.rays[:: self._stride].astype(np.float32)
        self._samples = scanner.origin.astype(np.float32) + rays[:, None, :] * self._along[:, None]
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Reset the state, for ``batch`` robots."""
        side = self.settings.cells
        self.log_odds = np.zeros((batch, side, side), dtype=np.float32)
        self.seen = np.zeros((batch, side, side), dtype=bool)
        self.corner = np.zeros((batch, 2), dtype=np.int64)
        self._placed = np.zeros(batch, dtype=bool)

    @property
    def origin(self) -> Array:
        """(N, 2) m, odom: the corner of the first cell."""
        return np.asarray(self.corner * self.settings.resolution_m)

    @property
    def field(self) -> Field:
        """A snapshot of the grids."""
        return Field(
            self.log_odds >= self.settings.occupied,
            ~self.seen,
            self.origin,
            self.settings.resolution_m,
        )

    def part(self, robot: int, places: Array) -> Field:
        """Return the part of one robot's grid that contains everything observed and ``places`` (places, 2) m, odom.

        It has some margin, and sides of few different lengths.
        """
        s, seen = self.settings, self.seen[robot]
        at = np.floor(places / s.resolution_m).astype(np.int64) - self.corner[robot]
        at = np.clip(at, 0, s.cells - 1)
        spans = []
        for axis, column in ((1, 1), (0, 0)):  # rows are y
            used = np.flatnonzero(seen.any(axis=axis))
            low = min([*used[:1].tolist(), int(at[:, column].min())]) - _ROOM
            high = max([*used[-1:].tolist(), int(at[:, column].max())]) + 1 + _ROOM
            first = max(low // _STEP * _STEP, 0)
            spans.append(slice(first, min(-(-high // _STEP) * _STEP, s.cells)))
        box = tuple(spans)
        corner = self.corner[robot] + [spans[1].start, spans[0].start]
        occupied = self.log_odds[robot][box] >= s.occupied
        return Field(occupied[None], ~seen[box][None], corner[None] * s.resolution_m, s.resolution_m)

    def near(self, robot: int, position: Array, reach_m: float) -> Array:
        """Return the centres (cells, 2) m, odom, of one robot's occupied cells within a square around a place (2,)."""
        s = self.settings
        at = np.floor(position / s.resolution_m).astype(np.int64) - self.corner[robot]
        reach = int(np.ceil(reach_m / s.resolution_m))
        low, high = np.clip(at - reach, 0, s.cells), np.clip(at + reach + 1, 0, s.cells)
        found = np.argwhere(self.log_odds[robot, low[1] : high[1], low[0] : high[0]] >= s.occupied)[:, ::-1]
        return np.asarray((found + low + self.corner[robot] + 0.5) * s.resolution_m)

    def states(self) -> NDArray[np.int8]:
        """Return (N, rows, columns) of :data:`UNKNOWN`, :data:`FREE` and :data:`OCCUPIED`."""
        found = np.where(self.log_odds >= self.settings.occupied, OCCUPIED, FREE)
        return np.where(self.seen, found, UNKNOWN).astype(np.int8)

    def forget(self, robots: NDArray[np.bool_]) -> None:
        """Clear the grids of some robots (N,)."""
        self.log_odds[robots], self.seen[robots] = 0.0, False
        self._placed[robots] = False

    def update(self, motion: Motion, scan_points: ScanPoints, ignored: NDArray[np.bool_] | None = None) -> None:
        """Add one scan of each robot.

        Args:
            motion: Their poses.
            scan_points: Points of their scans.
            ignored: (N, rays) rays to ignore, such as those that hit people; None: none.
        """
        self._follow(motion.position)
        s, side = self.settings, self.settings.cells
        for n in range(len(self.log_odds)):
            # robot by robot, so that the working set stays in the cache
            picked = slice(None, None, self._stride)
            ranges, hit = scan_points.ranges[n, picked], scan_points.hit[n, picked]
            counts = np.ones(len(ranges), dtype=bool) if ignored is None else ~ignored[n, picked]
            cos, sin = np.cos(motion.heading[n]), np.sin(motion.heading[n])
            into = np.array([[cos, sin], [-sin, cos]], dtype=np.float32) / np.float32(s.resolution_m)
            start = (motion.position[n] / s.resolution_m - self.corner[n]).astype(np.float32)
            passed = self._along < np.where(counts, ranges, 0.0)[:, None] - 0.5 * s.resolution_m
            column, row = np.floor(self._samples[passed] @ into + start).astype(np.int32).T
            inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
            misses = np.zeros(side * side, dtype=bool)
            misses[(row * side + column)[inside]] = True

            ends = counts & hit & (ranges < self.sight_m)
            column, row = np.floor(scan_points.points[n, picked][ends] @ into + start).astype(np.int32).T
            inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
            hits = np.unique((row * side + column)[inside])
            misses[hits] = False
            grid = self.log_odds[n].reshape(-1)
            free = np.flatnonzero(misses)
            grid[free] = np.maximum(grid[free] + np.float32(s.miss), -s.most)
            grid[hits] = np.minimum(grid[hits] + np.float32(s.hit), s.most)
            seen = self.seen[n].reshape(-1)
            seen[free] = seen[hits] = True

    def _follow(self, position: Array) -> None:
        """Recentre windows whose robots are in the outer quarter."""
        side = self.settings.cells
        at = np.floor(position / self.settings.resolution_m).astype(np.int64)
        new = ~self._placed
        self.corner[new], self._placed[new] = at[new] - side // 2, True
        inner = at - self.corner
        for n in np.flatnonzero((np.minimum(inner, side - 1 - inner) < side // 4).any(axis=1)):
            corner = at[n] - side // 2
            dx, dy = (int(d) for d in corner - self.corner[n])
            for grids in (self.log_odds, self.seen):
                kept = np.zeros_like(grids[n])
                if abs(dx) < side and abs(dy) < side:
                    kept[_into(-dy, side), _into(-dx, side)] = grids[n][_into(dy, side), _into(dx, side)]
                grids[n] = kept
            self.corner[n] = corner


def _into(shift: int, side: int) -> slice:
    return slice(max(shift, 0), side + min(shift, 0))
