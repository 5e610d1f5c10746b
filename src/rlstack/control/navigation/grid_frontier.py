"""Frontier exploration of N maps whose cells are as large as a rover: where to go next, cell by cell.

Frontiers are free cells beside unknown ones (B. Yamauchi, CIRA 1997). ``greedy`` goes to the nearest by the way there.
``utility`` weighs what would be seen from a frontier against the way to it, as next-best-view planners do
(H. Gonzalez-Banos, J.-C. Latombe, IJRR 2002). Both choose anew in every cell. ``published`` is the cost-based planner
of MarsExplorer's public code (arXiv 2107.09996), which measures by straight lines and may be caught behind obstacles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index, Mask
from rlstack.schema import value
from rlstack.sim.grids.lidar import GridLidar
from rlstack.sim.grids.simulator import MOVES, allowed_moves

_FAR = np.iinfo(np.int16).max
"""Distance of unreachable cells."""


@dataclass(frozen=True, kw_only=True)
class GridFrontierSettings:
    """How a frontier is chosen."""

    choice: Literal["greedy", "utility", "published"] = "greedy"
    power: float = value(2.0, at_least=0.0)
    """Utility is the number of unknown cells in sight of a frontier over the way to it, in cells, to this power.
    Tuned on MarsExplorer's terrain: 2 and 3 are the best of 0.5, 1, 1.5, 2 and 3, and better than a decay by 0.05 to 1
    a cell or a cost of 2 or 4 seen cells for a cell gone."""
    range_cells: int = value(6, at_least=1)
    rays: int = value(32, at_least=4)
    """Rays of the lidar that estimates what would be seen if all unknown cells were free."""


class GridFrontier:
    """Explores N maps of one size; it has no state.

    Args:
        settings: How to choose.
    """

    inputs = ("map", "map_resolution", "map_origin", "position")
    outputs = ("waypoint",)

    def __init__(self, settings: GridFrontierSettings) -> None:
        self.settings = settings
        self._lidars: dict[tuple[int, int], GridLidar] = {}

    def reset(self, batch: int = 1) -> None:
        """No-op: it has no state."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the centre of the next cell, ``waypoint`` (N, 3) m, odom; with no frontier left, of this one."""
        known = np.asarray(inputs["map"])
        count, rows, columns = known.shape
        origin, resolution = np.asarray(inputs["map_origin"]), np.asarray(inputs["map_resolution"])
        place = np.floor((np.asarray(inputs["position"]) - origin) / resolution)[:, :2].astype(np.intp)
        x, y = np.clip(place, 0, (columns - 1, rows - 1)).T
        here = y * columns + x
        unknown, free = known < 0, (known >= 0) & (known < 50)
        steps = np.array([*MOVES, (0, 0)])[self._choose(unknown, free, here)]
        middle = np.column_stack((x, y)) + steps + 0.5
        return {"waypoint": np.column_stack((origin[:, :2] + middle * resolution, np.zeros(count)))}

    def _choose(self, unknown: Mask, free: Mask, here: Index) -> Index:
        """Return the number of the move (N,), or that after the last to stay."""
        count = len(here)
        frontier = free & grown(unknown, corners=True)
        frontier.reshape(count, -1)[np.arange(count), here] = False
        allowed = allowed_moves(free, here)
        if self.settings.choice == "published":
            cost = self._straight(frontier, here)
        else:
            if self.settings.choice == "utility":
                frontier = self._worthiest(unknown, free, frontier, here)
            cost = self._beyond(distances(frontier, free), here, allowed)
        cost = np.where(allowed, cost, np.inf)
        return np.where(frontier.any(axis=(1, 2)) & allowed.any(axis=1), cost.argmin(axis=1), len(MOVES))

    def _worthiest(self, unknown: Mask, free: Mask, frontier: Mask, here: Index) -> Mask:
        """Return only the frontier cell of the greatest utility, in each map."""
        count, rows, columns = free.shape
        if (rows, columns) not in self._lidars:
            self._lidars[rows, columns] = GridLidar(rows, columns, self.settings.range_cells, self.settings.rays)
        start = np.zeros((count, rows * columns), dtype=np.bool_)
        start[np.arange(count), here] = True
        away = distances(start.reshape(free.shape), free).reshape(count, -1)
        world, cell = np.nonzero(frontier.reshape(count, -1) & (away < _FAR))
        blocked = (~unknown & ~free).reshape(count, -1)
        views = self._lidars[rows, columns].views(blocked, world, cell)
        gain = (views & unknown.reshape(count, -1)[world]).sum(axis=1)
        utility = np.full((count, rows * columns), -1.0)
        utility[world, cell] = gain / away[world, cell].astype(float) ** self.settings.power
        chosen = np.zeros_like(start)
        chosen[np.arange(count), utility.argmax(axis=1)] = utility.max(axis=1) >= 0.0
        return chosen.reshape(free.shape)

    def _beyond(self, away: NDArray[np.int16], here: Index, allowed: Mask) -> Array:
        """Return the distance left after each move."""
        count, _, columns = away.shape
        steps = np.array([x + y * columns for x, y in MOVES])
        beyond = np.where(allowed, here[:, None] + steps, 0)
        return np.take_along_axis(away.reshape(count, -1), beyond, axis=1).astype(float)

    def _straight(self, frontier: Mask, here: Index) -> Array:
        """Return the straight distance to the nearest frontier cell after each move."""
        count, rows, columns = frontier.shape
        row, column = np.indices((rows, columns)).reshape(2, -1)
        y, x = np.divmod(here, columns)
        cost = np.empty((count, len(MOVES)))
        for k, (right, up) in enumerate(MOVES):
            away = np.hypot(row - (y + up)[:, None], column - (x + right)[:, None])
            cost[:, k] = np.where(frontier.reshape(count, -1), away, np.inf).min(axis=1)
        return np.where(np.isfinite(cost), cost, float(_FAR))


def grown(cells: Mask, corners: bool = False) -> Mask:
    """Return cells (N, rows, columns) with those beside them, over corners too or not."""
    wide = cells.copy()
    wide[:, 1:] |= cells[:, :-1]
    wide[:, :-1] |= cells[:, 1:]
    sides = wide.copy() if corners else cells
    wide[:, :, 1:] |= sides[:, :, :-1]
    wide[:, :, :-1] |= sides[:, :, 1:]
    return wide


def distances(targets: Mask, free: Mask) -> NDArray[np.int16]:
    """Return how many moves over free cells (N, rows, columns) lead from each cell to the nearest of ``targets``."""
    away = np.where(targets, 0, _FAR).astype(np.int16)
    reached, edge, length = targets.copy(), targets, 0
    while edge.any():
        length += 1
        edge = grown(edge) & free & ~reached
        reached |= edge
        away[edge] = length
    return away
