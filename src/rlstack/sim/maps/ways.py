"""Ways over the cells of a grid, by Dijkstra's algorithm (scipy), in whole numbers: the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index, Mask
from rlstack.libraries import import_library

STRAIGHT, DIAGONAL = 5, 7
"""Lengths of a step, in fifths of a cell: 7 / 5 is 1% less than the square root of 2."""


@dataclass(frozen=True, eq=False)
class Ways:
    """The shortest ways over a grid's free cells to one cell."""

    length: Array
    """(rows, columns), in cells; inf: there is no way."""
    _next: NDArray[np.int32]
    _columns: int

    def path(self, cell: tuple[int, int]) -> Index:
        """Return the cells (n, 2) from one to the end of the ways, both included."""
        at = cell[0] * self._columns + cell[1]
        found = [at]
        following = self._next
        while (at := int(following[at])) >= 0:
            found.append(at)
        return np.stack(np.divmod(np.array(found), self._columns), axis=1)


def find_ways(free: Mask, end: tuple[int, int]) -> Ways:
    """Return the shortest ways to a cell, side by side and diagonally between free cells, never around a corner.

    Args:
        free: (rows, columns) where a way may be.
        end: Row and column where all ways end.

    Raises:
        UserError: scipy is not installed.
    """
    sparse, csgraph = import_library("scipy.sparse", "sim"), import_library("scipy.sparse.csgraph", "sim")
    graph = _graph(free.shape[0], free.shape[1])
    flat = free.ravel()
    # a diagonal step needs both cells beside it: then a disc that fits in the four cells fits between them
    open_ = flat[graph.columns] & flat[graph.rows] & flat[graph.beside[0]] & flat[graph.beside[1]]
    weights = np.where(open_, graph.weights, np.inf)
    matrix = sparse.csr_array((weights, graph.columns, graph.starts), shape=(flat.size, flat.size))
    length, following = csgraph.dijkstra(matrix, indices=end[0] * free.shape[1] + end[1], return_predecessors=True)
    return Ways((length / STRAIGHT).reshape(free.shape), following, free.shape[1])


@dataclass(frozen=True, eq=False)
class _Graph:
    starts: NDArray[np.int32]
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    beside: tuple[NDArray[np.int32], NDArray[np.int32]]
    weights: Array


@lru_cache(maxsize=4)
def _graph(rows: int, columns: int) -> _Graph:
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
    integers = [a.astype(np.int32) for a in (starts, here, there, one, other)]
    return _Graph(integers[0], integers[1], integers[2], (integers[3], integers[4]), weight.astype(float))
