"""Exploration of grid worlds by N rovers: terrain, start cells, and the maps that the rovers build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Index, Mask
from rlstack.libraries import import_library
from rlstack.sim.grids.lidar import GridLidar

UNKNOWN, FREE, OCCUPIED = -1.0, 0.0, 100.0
"""Cell values of nav_msgs/OccupancyGrid."""

MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""Moves along x (columns) and y (rows), in the order of the actions."""


class GridSimulator:
    """N rovers on grids of one size, each with the map that it has built so far.

    Args:
        count: N.
        lidar: Their lidar.
        rows: Rows of the grids.
        columns: Columns of the grids.

    Attributes:
        occupied: (N, cells) the true terrain, row after row.
        map: (N, rows, columns) float32 of :data:`UNKNOWN`, :data:`FREE` and :data:`OCCUPIED`: the rovers' maps.
        cell: (N,) the rovers' cells.
    """

    def __init__(self, count: int, lidar: GridLidar, rows: int, columns: int) -> None:
        self.rows, self.columns, self._lidar = rows, columns, lidar
        self.occupied = np.zeros((count, rows * columns), dtype=np.bool_)
        self.map: NDArray[np.float32] = np.full((count, rows, columns), UNKNOWN, dtype=np.float32)
        self.cell: Index = np.zeros(count, dtype=np.intp)

    def place(self, rovers: Index, occupied: Mask, cell: Index) -> None:
        """Place some rovers (K,) in new terrain (K, rows, columns) at cells (K,) and take a scan."""
        self.occupied[rovers] = occupied.reshape(len(rovers), -1)
        self.map[rovers] = UNKNOWN
        self.cell[rovers] = cell
        self._look(rovers)

    def allowed(self) -> Mask:
        """Return which moves (N, 4) lead to a free cell."""
        return allowed_moves(~self.occupied.reshape(self.map.shape), self.cell)

    def move(self, choice: Index, moving: Mask | None = None) -> Mask:
        """Move all rovers, or those in ``moving`` (N,), by :data:`MOVES`, and take a scan.

        Returns:
            (N,) which of them crashed: they hit an obstacle or the grid's edge, and stay in their cell.
        """
        going = np.ones(len(choice), dtype=np.bool_) if moving is None else moving
        clear = np.take_along_axis(self.allowed(), choice[:, None], axis=1)[:, 0]
        steps = np.array([x + y * self.columns for x, y in MOVES])
        self.cell = np.where(going & clear, self.cell + steps[choice], self.cell)
        self._look(np.flatnonzero(going & clear))
        return np.asarray(going & ~clear)

    def known(self) -> Index:
        """Return the number of known cells (N,)."""
        return np.asarray((self.map >= 0.0).sum(axis=(1, 2)))

    def _look(self, rovers: Index) -> None:
        on_ray, seen = self._lidar.look(self.occupied, rovers, self.cell[rovers])
        known = (on_ray + (rovers * self._lidar.cells)[:, None, None])[seen]
        self.map.reshape(-1)[known] = np.where(self.occupied.reshape(-1)[known], OCCUPIED, FREE)


def allowed_moves(free: Mask, cell: Index) -> Mask:
    """Return which of :data:`MOVES` (N, 4) lead from cells (N,) to a free cell of grids (N, rows, columns)."""
    count, rows, columns = free.shape
    row, column = np.divmod(cell, columns)
    found = np.zeros((count, len(MOVES)), dtype=np.bool_)
    for k, (x, y) in enumerate(MOVES):
        inside = (row + y >= 0) & (row + y < rows) & (column + x >= 0) & (column + x < columns)
        beyond = np.where(inside, cell + x + y * columns, 0)
        found[:, k] = inside & free.reshape(count, -1)[np.arange(count), beyond]
    return found


@dataclass(frozen=True, eq=False)
class Sites:
    """N grid worlds with start cells.

    Args:
        occupied: (N, rows, columns).
        start: (N,) cells, numbered row after row.
        total: (N,) number of observable cells, the basis of explored shares.
    """

    occupied: Mask
    start: Index
    total: Index

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Any) -> Sites:
        """Return the sites selected by index, slice or mask."""
        return Sites(self.occupied[which], self.start[which], self.total[which])

    def mirrored(self, rng: np.random.Generator) -> Sites:
        """Return the sites randomly mirrored and transposed; grids must be square."""
        occupied, start = self.occupied.copy(), self.start.copy()
        side = occupied.shape[1]
        row, column = np.divmod(start, side)
        ways = rng.integers(0, 8, len(self))
        for k in range(1, 8):
            mine = ways == k
            turned = occupied[mine]
            r, c = row[mine], column[mine]
            if k & 1:
                turned, r = turned[:, ::-1], side - 1 - r
            if k & 2:
                turned, c = turned[:, :, ::-1], side - 1 - c
            if k & 4:
                turned, r, c = turned.transpose(0, 2, 1), c, r
            occupied[mine] = turned
            start[mine] = r * side + c
        return Sites(occupied, start, self.total)


def reachable(occupied: Mask, start: Index) -> Mask:
    """Return which cells (N, cells) of grids (N, rows, columns) a rover can reach from free cells (N,)."""
    label = import_library("scipy.ndimage", "sim").label
    neighbours = np.zeros((3, 3, 3))  # four within a grid, none in another
    neighbours[1] = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    regions = label(~occupied, neighbours)[0].reshape(len(start), -1)
    return np.asarray(regions == regions[np.arange(len(start)), start][:, None])


def observable_cells(lidar: GridLidar, occupied: Mask, start: Index) -> Index:
    """Return how many cells (N,) are visible from all reachable cells together."""
    there = reachable(occupied, start)
    flat = occupied.reshape(len(occupied), -1)
    found = np.empty(len(occupied), dtype=np.intp)
    for n, places in enumerate(there):
        cells = np.flatnonzero(places)
        found[n] = lidar.views(flat, np.full(len(cells), n), cells).any(axis=0).sum()
    return found
