"""Exploration problems of N rovers: terrain, start cells and the number of observable cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Index, Mask
from rlstack.sim.grids.lidar import GridLidar
from rlstack.sim.grids.worlds import MOVES


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

    def turned(self, rng: np.random.Generator) -> Sites:
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
    """Return which cells (N, cells) of grids (N, rows, columns) a rover can reach from cells (N,)."""
    count, rows, columns = occupied.shape
    free = np.pad(~occupied, ((0, 0), (1, 1), (1, 1))).reshape(count, -1)
    width = columns + 2
    found = np.zeros_like(free)
    found[np.arange(count), (start // columns + 1) * width + start % columns + 1] = True
    while True:
        further = found.copy()
        for x, y in MOVES:
            further |= np.roll(found, x + y * width, axis=1)
        further &= free
        if (further == found).all():
            inside = found.reshape(count, rows + 2, width)[:, 1:-1, 1:-1]
            return inside.reshape(count, -1)
        found = further


def knowable(lidar: GridLidar, occupied: Mask, start: Index) -> Index:
    """Return how many cells (N,) are visible from all reachable cells together."""
    there = reachable(occupied, start)
    flat = occupied.reshape(len(occupied), -1)
    found = np.empty(len(occupied), dtype=np.intp)
    for n, places in enumerate(there):
        cells = np.flatnonzero(places)
        found[n] = lidar.views(flat, np.full(len(cells), n), cells).any(axis=0).sum()
    return found
