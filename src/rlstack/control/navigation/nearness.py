"""How far the nearest thing that a scan met is from points around the robot: one small grid each, in its own frame.

Each cell knows which point of the scan is nearest to it, so that distances are those to points, not to cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Array32
from rlstack.libraries import import_library

_FAR_M = 1e3
"""Where the nearest point is where there is none."""


class Nearness:
    """Nearest points around N robots.

    Args:
        reach_m: Half the side of the grids: what is asked farther out is answered for the rim.
        cell_m: Side of a cell.
    """

    def __init__(self, reach_m: float, cell_m: float) -> None:
        self._transform = import_library("scipy.ndimage", "navigation").distance_transform_edt
        self._side = 2 * int(np.ceil(reach_m / cell_m)) + 1
        self._scale = np.float32(1.0 / cell_m)
        self._offset = np.float32(0.5 * self._side)

    def set(self, points: Array, hit: NDArray[np.bool_]) -> None:
        """Take what scans met: (N, points, 2) m in ``base_link``, and which of them count (N, points)."""
        count, side = len(points), self._side
        self._x = np.full((count, side, side), _FAR_M, dtype=np.float32)
        self._y = np.full((count, side, side), _FAR_M, dtype=np.float32)
        cells = np.floor(points * self._scale + self._offset)
        inside = hit & ((cells >= 0) & (cells < side)).all(axis=-1)
        for n in np.flatnonzero(inside.any(axis=1)):
            mine = points[n, inside[n]]
            column, row = cells[n, inside[n]].astype(np.intp).T
            owner = np.full((side, side), -1, dtype=np.intp)
            owner[row, column] = np.arange(len(mine))
            nearest = self._transform(owner < 0, return_distances=False, return_indices=True)
            near = mine[owner[nearest[0], nearest[1]]].astype(np.float32)
            self._x[n], self._y[n] = near[..., 0], near[..., 1]

    def distance(self, robots: NDArray[np.intp], x: Array32, y: Array32) -> Array32:
        """Return the distance (n, ...) in m from places (n, ...) m around some robots (n,) to what is nearest."""
        side, last = self._side, np.float32(self._side - 1)
        column = np.clip(x * self._scale + self._offset, 0, last).astype(np.int32)
        row = np.clip(y * self._scale + self._offset, 0, last).astype(np.int32)
        first = (side * side * robots.astype(np.int32)).reshape(-1, *(1,) * (x.ndim - 1))
        cell = first + row * np.int32(side) + column
        dx, dy = self._x.reshape(-1)[cell] - x, self._y.reshape(-1)[cell] - y
        return np.asarray(np.sqrt(dx * dx + dy * dy), dtype=np.float32)
