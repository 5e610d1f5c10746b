"""A lidar on a grid: rays from the centre of a cell, as in the public code of MarsExplorer.

(arXiv 2107.09996.) A ray is sampled at 200 points, each in the cell with the nearest centre. It ends half a cell beyond
the whole cells between the rover and the nearest occupied cell on it, or at its range. As in the original, an end
exactly between two cells belongs to the even-numbered one, so from every second position an obstacle straight ahead
does not hide the first cell behind it.
"""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Index, Mask

Path = list[tuple[int, int]]

_SAMPLES = 200
_PARITIES = ((0, 0), (0, 1), (1, 0), (1, 1))


class GridLidar:
    """A lidar for grids of one size; rays that reach the edge continue along it, as in MarsExplorer.

    Args:
        rows: Rows of the grid.
        columns: Columns of the grid.
        range_cells: Length of a ray.
        rays: Number of evenly spaced rays around the rover, the first along +x.
    """

    def __init__(self, rows: int, columns: int, range_cells: int, rays: int) -> None:
        self.cells, self._range = rows * columns, range_cells
        angles = np.arange(rays) * (2.0 * np.pi / rays)
        # visible cells of a ray by the number of whole cells to the blocking one; at full range nothing blocks
        ends = [min(length + 0.5, range_cells) for length in range(range_cells)] + [range_cells]
        seen = [[[_path(end, angle, start) for end in ends] for angle in angles] for start in _PARITIES]
        paths = [seen[0][ray][-1] for ray in range(rays)]
        # a shorter ray may sample a corner that the whole one steps over
        every = [
            list(dict.fromkeys(path + sum((s[r][d] for s in seen for d in range(range_cells)), Path())))
            for r, path in enumerate(paths)
        ]
        most = max(map(len, every))
        padded = np.array([cells + [cells[-1]] * (most - len(cells)) for cells in every])
        here = np.stack(np.divmod(np.arange(self.cells), columns), axis=-1)
        on_ray = np.clip(here[:, None, None] + padded, 0, (rows - 1, columns - 1))
        self._on_ray = (on_ray[..., 0] * columns + on_ray[..., 1]).astype(np.int32)
        blocking = np.arange(most) < np.array([len(path) for path in paths])[:, None]
        away = np.floor(np.hypot(padded[..., 0], padded[..., 1]))
        self._away = np.where(blocking, np.minimum(away, range_cells), range_cells).astype(np.int8)
        self._seen = np.array(
            [
                [
                    [[c in set(s[r][d]) for c in map(tuple, padded[r].tolist())] for d in range(range_cells + 1)]
                    for r in range(rays)
                ]
                for s in seen
            ]
        )
        self._parity = here[:, 0] % 2 * 2 + here[:, 1] % 2
        self._rays = np.arange(rays)

    def look(self, occupied: Mask, world: Index, cell: Index) -> tuple[Index, Mask]:
        """Return the visible cells of N rovers.

        Args:
            occupied: (W, cells) worlds, row after row.
            world: (N,) world of each rover.
            cell: (N,) cell of each rover.

        Returns:
            The cells (N, rays, length) along the rays, with repetitions, and which of them are visible.
        """
        on_ray = self._on_ray[cell]
        hit = occupied.reshape(-1)[on_ray + (world * self.cells)[:, None, None]]
        free = np.where(hit, self._away, self._range).min(axis=-1)
        return on_ray, self._seen[self._parity[cell][:, None], self._rays, free]

    def views(self, occupied: Mask, world: Index, cell: Index) -> Mask:
        """Return which cells (N, cells) are visible to rovers at ``cell``; arguments as for :meth:`look`."""
        on_ray, seen = self.look(occupied, world, cell)
        found = np.zeros((len(cell), self.cells), dtype=np.bool_)
        found.reshape(-1)[(on_ray + (np.arange(len(cell)) * self.cells)[:, None, None])[seen]] = True
        return found


def _path(length: float, angle: float, start: tuple[int, int]) -> Path:
    """Return the cells on a ray of ``length`` from ``start``, (row, column) relative to it, in order."""
    ahead = np.array([np.sin(angle), np.cos(angle)])
    places = np.linspace(np.array(start, dtype=float), start + length * ahead, _SAMPLES)
    steps = (np.round(places) - start).astype(int).tolist()
    return list(dict.fromkeys((row, column) for row, column in steps))
