"""Shortest paths over the free cells of a grid, and of a disc among obstacles by a visibility graph near such a path.

Paths over cells use Dijkstra's algorithm with integer costs, so they are the same on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index, Mask
from rlstack.libraries import import_library
from rlstack.sim.maps.floor_map import distance

STRAIGHT, DIAGONAL = 5, 7
"""Costs of a straight and a diagonal step, in fifths of a cell: 7 / 5 is 1% less than the square root of 2."""


@dataclass(frozen=True, eq=False)
class ShortestPaths:
    """Shortest paths over a grid's free cells to one cell."""

    length: Array
    """(rows, columns), in cells; inf: unreachable."""
    _next: NDArray[np.int32]
    _columns: int

    def path(self, cell: tuple[int, int]) -> Index:
        """Return the cells (n, 2) of the path from a cell to the end, both included."""
        at = cell[0] * self._columns + cell[1]
        found = [at]
        following = self._next
        while (at := int(following[at])) >= 0:
            found.append(at)
        return np.stack(np.divmod(np.array(found), self._columns), axis=1)


def find_shortest_paths(free: Mask, end: tuple[int, int]) -> ShortestPaths:
    """Return the shortest paths to a cell over free 8-neighbours, without corner cutting.

    Args:
        free: (rows, columns) free cells.
        end: Row and column of the end of all paths.

    Raises:
        UserError: scipy is not installed.
    """
    sparse, csgraph = import_library("scipy.sparse", "sim"), import_library("scipy.sparse.csgraph", "sim")
    (starts, rows, columns, one, other), costs = _graph(free.shape[0], free.shape[1])
    flat = free.ravel()
    # a diagonal step needs both cells beside it, so that a disc that fits in the four cells fits between them
    open_ = flat[columns] & flat[rows] & flat[one] & flat[other]
    matrix = sparse.csr_array((np.where(open_, costs, np.inf), columns, starts), shape=(flat.size, flat.size))
    length, following = csgraph.dijkstra(matrix, indices=end[0] * free.shape[1] + end[1], return_predecessors=True)
    return ShortestPaths((length / STRAIGHT).reshape(free.shape), following, free.shape[1])


@lru_cache(maxsize=4)
def _graph(rows: int, columns: int) -> tuple[list[NDArray[np.int32]], Array]:
    """Return row starts, rows, columns and the two cells beside each step of a CSR matrix, and the steps' costs."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    steps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    edges = []
    for dy, dx in steps:
        kept = (row + dy >= 0) & (row + dy < rows) & (column + dx >= 0) & (column + dx < columns)
        here = np.flatnonzero(kept)
        weight = np.full(len(here), DIAGONAL if dy and dx else STRAIGHT)
        edges.append(np.stack([here, here + dy * columns + dx, here + dy * columns, here + dx, weight]))
    table = np.concatenate(edges, axis=1)
    table = table[:, np.argsort(table[0], kind="stable")]
    starts = np.searchsorted(table[0], np.arange(rows * columns + 1))
    here, there, one, other, weight = table
    return [a.astype(np.int32) for a in (starts, here, there, one, other)], weight.astype(float)


_ARC = 3
"""Corners of the polygon around a quarter circle, which is 2% longer than the arc."""
_NEAR_CELLS = 3.0
"""Greatest distance of corners from the cell path, in steps of that path."""


def shortest_length(path: Array, boxes: Array, circles: Array, radius_m: float) -> float:
    """Return the length in m of a disc's shortest path between the ends of a given path.

    It is the shortest path that passes the same obstacles on the same sides. Short straight lines approximate corners,
    so the result is up to 1% too long.

    Args:
        path: (n, 2) x, y of a collision-free path of the disc, m, with steps of about equal length.
        boxes: As in :class:`~rlstack.sim.maps.floor_map.FloorMap`.
        circles: As in :class:`~rlstack.sim.maps.floor_map.FloorMap`.
        radius_m: Radius of the disc.
    """
    step = float(np.hypot(*(path[2] - path[1]))) if len(path) > 3 else radius_m
    corners = _corners(boxes, circles, radius_m)
    beside = path[::2]
    away = np.hypot(corners[:, :1] - beside[:, 0], corners[:, 1:] - beside[:, 1])
    near = away.min(axis=1) <= _NEAR_CELLS * step
    corners = corners[near]
    corners = corners[distance(boxes, circles, corners[:, 0], corners[:, 1]) >= radius_m - 1e-9]
    kept = np.unique(np.concatenate([np.arange(0, len(path), 8), [len(path) - 1]]))
    nodes = np.concatenate([path[kept], corners])
    i, j = np.triu_indices(len(nodes), 1)
    a, b = nodes[i], nodes[j]
    open_ = clear_between(a, b, boxes, circles, radius_m)
    ways = np.full((len(nodes), len(nodes)), np.inf)
    ways[i, j] = ways[j, i] = np.where(open_, np.hypot(*(b - a).T), np.inf)
    steps = np.hypot(*np.diff(path, axis=0).T).cumsum()
    along = np.concatenate([[0.0], steps])[kept]
    for k in range(len(kept) - 1):  # the path itself, whatever is visible
        ways[k, k + 1] = ways[k + 1, k] = min(ways[k, k + 1], along[k + 1] - along[k])
    csgraph = import_library("scipy.sparse.csgraph", "sim")
    return float(csgraph.dijkstra(ways, indices=0)[len(kept) - 1])


def clear_between(a: Array, b: Array, boxes: Array, circles: Array, radius_m: float) -> NDArray[np.bool_]:
    """Return whether a disc's straight paths from points (N, 2) to others (N, 2) are collision-free."""
    clear = np.ones(len(a), dtype=bool)
    reach = radius_m - 1e-6
    ends = a[:, 0], a[:, 1], b[:, 0], b[:, 1]
    x, y, half_x, half_y, yaw = boxes.T
    c, s = np.cos(yaw), np.sin(yaw)
    wide, tall = np.abs(c) * half_x + np.abs(s) * half_y, np.abs(s) * half_x + np.abs(c) * half_y
    segment, box = _near(ends, (x - wide, y - tall, x + wide, y + tall), reach)
    c, s = c[box], s[box]
    u, v, p, q = (end[segment] - middle[box] for end, middle in zip(ends, (x, y, x, y)))
    local = c * u + s * v, c * v - s * u, c * p + s * q, c * q - s * p
    clear[segment[_segment_box(*local, half_x[box], half_y[box]) < reach]] = False
    x, y, radius = circles.T
    segment, circle = _near(ends, (x - radius, y - radius, x + radius, y + radius), reach)
    u, v, p, q = (end[segment] for end in ends)
    clear[segment[_segment_point(u, v, p, q, x[circle], y[circle]) - radius[circle] < reach]] = False
    return clear


def _near(segments: tuple[Array, ...], rectangles: tuple[Array, ...], reach: float) -> tuple[Index, Index]:
    """Return the index pairs of segments and rectangles with axis-aligned bounds within ``reach``."""
    ax, ay, bx, by = segments
    x0, y0, x1, y1 = rectangles
    beside = (np.maximum(ax, bx)[:, None] > x0 - reach) & (np.minimum(ax, bx)[:, None] < x1 + reach)
    beside &= (np.maximum(ay, by)[:, None] > y0 - reach) & (np.minimum(ay, by)[:, None] < y1 + reach)
    segment, rectangle = np.nonzero(beside)
    return segment, rectangle


def _segment_point(ax: Array, ay: Array, bx: Array, by: Array, x: Array, y: Array) -> Array:
    u, v = bx - ax, by - ay
    share = np.clip(((x - ax) * u + (y - ay) * v) / np.maximum(u * u + v * v, 1e-18), 0.0, 1.0)
    return np.hypot(ax + share * u - x, ay + share * v - y)


def _segment_box(ax: Array, ay: Array, bx: Array, by: Array, half_x: Array, half_y: Array) -> Array:
    """Return the distances from segments to boxes about the origin; 0 where they meet."""
    found = [
        np.hypot(np.maximum(np.abs(x) - half_x, 0.0), np.maximum(np.abs(y) - half_y, 0.0))
        for x, y in ((ax, ay), (bx, by))
    ]
    found += [_segment_point(ax, ay, bx, by, sx * half_x, sy * half_y) for sx in (-1.0, 1.0) for sy in (-1.0, 1.0)]
    first, last = np.zeros_like(ax), np.ones_like(ax)
    for begin, end, half in ((ax, bx, half_x), (ay, by, half_y)):
        along = np.where(np.abs(end - begin) < 1e-12, 1e-12, end - begin)
        one, other = (-half - begin) / along, (half - begin) / along
        first, last = np.maximum(first, np.minimum(one, other)), np.minimum(last, np.maximum(one, other))
    return np.where(first <= last, 0.0, np.minimum.reduce(found))


def _corners(boxes: Array, circles: Array, radius_m: float) -> Array:
    """Return the corners (N, 2) of polygons around obstacles, a radius away from them."""
    ring = (np.arange(4 * _ARC) + 0.5) * (math.pi / 2.0 / _ARC)
    out = 1.0 / math.cos(math.pi / 4.0 / _ARC)
    side = np.repeat([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]], _ARC, axis=0).T
    x, y, half_x, half_y, yaw = boxes.T[..., None]
    u = side[0] * half_x + radius_m * out * np.cos(ring)
    v = side[1] * half_y + radius_m * out * np.sin(ring)
    c, s = np.cos(yaw), np.sin(yaw)
    of_boxes = np.stack([x + c * u - s * v, y + s * u + c * v], axis=-1).reshape(-1, 2)
    x, y, radius = circles.T[..., None]
    around = (radius + radius_m) * out
    of_circles = np.stack([x + around * np.cos(ring), y + around * np.sin(ring)], axis=-1).reshape(-1, 2)
    return np.concatenate([of_boxes, of_circles])
