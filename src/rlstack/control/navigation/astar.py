"""Paths on a grid: A* over cells whose cost rises near obstacles, and shortcuts that straighten the path.

A* (P. Hart, N. Nilsson, B. Raphael 1968) is computed as Dijkstra's algorithm on costs reduced by a consistent
heuristic, which visits the same cells in the same order; so SciPy's compiled one does the work. Moves are to the eight
neighbours, never across the corner of a blocked cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index
from rlstack.libraries import import_library
from rlstack.schema import value

_DIAGONAL = math.sqrt(2.0)
_SHORTCUT = 40
"""Most points of a path that one straight piece replaces."""
_MOVES = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


@dataclass(frozen=True, kw_only=True)
class CostSettings:
    """Costs of cells; a free cell far from obstacles costs 1."""

    margin: float = value(0.33, unit="radii of the base", at_least=0.0)
    """Clearance kept beyond the base's largest disc, where any path allows it."""
    fade: float = value(1.6, unit="radii of the base", above=0.0)
    """Over this distance the cost of being near an obstacle falls to 1/e."""
    near: float = value(0.75, at_least=0.0)
    """Additional cost right beside an obstacle."""
    unknown: float = value(0.35, at_least=0.0)
    """Additional cost of an unknown cell."""


class GridGraph:
    """The graph of a grid's cells and moves, built once for each shape.

    Args:
        shape: Rows and columns.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._csgraph, self._sparse = (
            import_library("scipy.sparse.csgraph", "navigation"),
            import_library("scipy.sparse", "navigation"),
        )
        rows, columns = shape[0] + 2, shape[1] + 2  # a blocked rim, so that no move leads around an edge
        self._width, self._nodes = columns, rows * columns
        steps = np.array([dy * columns + dx for dy, dx in _MOVES], dtype=np.int32)
        self._length = np.array([_DIAGONAL if dy and dx else 1.0 for dy, dx in _MOVES])
        node = np.arange(self._nodes, dtype=np.int32)[:, None]
        self._next = (node + steps) % np.int32(self._nodes)
        # for a diagonal, the two cells beside it; for the others, where they go anyway
        sides = (
            [dy * columns if dy and dx else dy * columns + dx for dy, dx in _MOVES],
            [dx if dy and dx else dy * columns + dx for dy, dx in _MOVES],
        )
        self._beside = [(node + np.array(side, dtype=np.int32)) % np.int32(self._nodes) for side in sides]
        self._indices = self._next.ravel()
        self._starts = np.arange(0, 8 * self._nodes + 1, 8, dtype=np.int32)

    def field(self, cost: Array, source: tuple[int, int]) -> Array:
        """Return the cost (rows, columns) of the path from each cell to ``source``; inf: there is none.

        Args:
            cost: (rows, columns) of a cell, at least 1; inf: blocked.
            source: Row and column.
        """
        graph = self._graph(self._move_costs(self._padded(cost)))
        distance = self._csgraph.dijkstra(graph, indices=self._node(source))
        found: Array = distance.reshape(self.shape[0] + 2, -1)[1:-1, 1:-1]
        return found

    def path(self, cost: Array, start: tuple[int, int], goal: tuple[int, int]) -> Index | None:
        """Return the cells (cells, 2) by row and column of the cheapest path, or None if there is none.

        Args:
            cost: (rows, columns) of a cell, at least 1; inf: blocked. Costs of a move are the mean of both cells'
                times its length in cells.
            start: Row and column; it may be blocked, the path then leads out of it.
            goal: Row and column.
        """
        if start == goal:
            return np.array([start], dtype=np.intp)
        padded = self._padded(cost)
        source, target = self._node(start), self._node(goal)
        if not np.isfinite(padded[target]):
            return None
        if not np.isfinite(padded[source]):
            padded[source] = 1.0
        moves = self._move_costs(padded)
        rows = np.abs(np.arange(self.shape[0] + 2) - (goal[0] + 1))[:, None]
        columns = np.abs(np.arange(self.shape[1] + 2) - (goal[1] + 1))
        ahead = (np.maximum(rows, columns) + (_DIAGONAL - 1.0) * np.minimum(rows, columns)).ravel()  # octile distance
        reduced = np.maximum(moves - ahead[:, None] + ahead[self._next], 0.0)
        graph = self._graph(reduced)
        # A* stops at the goal, SciPy's Dijkstra at a cost. Most goals cost little more than their heuristic.
        for limit in (0.3 * ahead[source], math.inf):
            distance, before = self._csgraph.dijkstra(graph, indices=source, return_predecessors=True, limit=limit)
            if np.isfinite(distance[target]):
                break
        else:
            return None
        nodes = [target]
        while nodes[-1] != source:
            nodes.append(int(before[nodes[-1]]))
        row, column = np.divmod(np.array(nodes[::-1]), self._width)
        return np.column_stack((row - 1, column - 1)).astype(np.intp)

    def _padded(self, cost: Array) -> Array:
        padded = np.full((self.shape[0] + 2, self.shape[1] + 2), math.inf)
        padded[1:-1, 1:-1] = cost
        return padded.ravel()

    def _node(self, cell: tuple[int, int]) -> int:
        return int((cell[0] + 1) * self._width + cell[1] + 1)

    def _move_costs(self, cost: Array) -> Array:
        moves = 0.5 * (cost[:, None] + cost[self._next]) * self._length
        shut = ~np.isfinite(cost)
        moves[shut[self._beside[0]] | shut[self._beside[1]]] = math.inf
        return np.asarray(moves)

    def _graph(self, moves: Array) -> object:
        finite = np.isfinite(moves)  # fewer moves are faster, and inf minus inf is no number
        counts = np.concatenate(([0], np.cumsum(finite.sum(axis=1)))).astype(np.int32)
        shape = (self._nodes, self._nodes)
        return self._sparse.csr_matrix((moves[finite], self._indices[finite.ravel()], counts), shape=shape)


@lru_cache(maxsize=32)
def grid_graph(shape: tuple[int, int]) -> GridGraph:
    """Return the cached graph of a shape."""
    return GridGraph(shape)


def clearance(occupied: NDArray[np.bool_], resolution_m: float) -> Array:
    """Return the distance (rows, columns) in m from each cell to the nearest occupied one; inf: there is none."""
    if not occupied.any():
        return np.full(occupied.shape, math.inf)
    return np.asarray(
        import_library("scipy.ndimage", "navigation").distance_transform_edt(~occupied, sampling=resolution_m),
        dtype=float,
    )


def costs(distance: Array, unknown: NDArray[np.bool_], radius_m: float, kept_m: float, settings: CostSettings) -> Array:
    """Return the cost of cells (rows, columns); inf where an obstacle is nearer than ``kept_m``.

    Args:
        distance: (rows, columns) m to the nearest occupied cell.
        unknown: (rows, columns).
        radius_m: Radius of the base's largest disc.
        kept_m: Least distance, such as that radius and a margin.
        settings: Weights.
    """
    spare = distance - kept_m
    cost = (
        1.0 + settings.near * np.exp(-np.maximum(spare, 0.0) / (settings.fade * radius_m)) + settings.unknown * unknown
    )
    return np.where(spare < 0.0, math.inf, cost)


def shortcut(path: Index, distance: Array, least_m: float, most_m: float) -> Index:
    """Return the corners (corners, 2) of a shortened path: straight where clearance does not drop much.

    Args:
        path: (points, 2), in cells by row and column.
        distance: (rows, columns) m to the nearest occupied cell.
        least_m: Clearance that a straight piece needs in any case.
        most_m: Clearance beyond which more is no better.
    """
    kept, here, last = [0], 0, len(path) - 1
    wanted = np.minimum(distance[path[:, 0], path[:, 1]], most_m)
    while here < last:
        ends = np.arange(here + 1, min(here + _SHORTCUT, last) + 1)
        span = path[ends] - path[here]
        share = np.linspace(0.0, 1.0, int(np.ceil(np.abs(span).max())) + 1)
        points = np.rint(path[here] + span[:, None, :] * share[:, None]).astype(np.intp)
        nearest = distance[points[..., 0], points[..., 1]].min(axis=1)
        # as far from obstacles as the piece that it replaces, or as far as is asked for
        needed = np.minimum.accumulate(wanted[here : here + len(ends) + 1])[1:]
        good = np.flatnonzero(nearest >= np.maximum(needed - 1e-9, least_m))
        here = int(ends[good[-1]]) if len(good) else here + 1
        kept.append(here)
    return path[kept]
