"""Setting of grid exploration: terrain, lidar, and the rover's input signals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.schema import value
from rlstack.sim.grids.lidar import GridLidar
from rlstack.sim.grids.simulator import MOVES, GridSimulator, Sites
from rlstack.sim.grids.terrain import Floors, Terrain, with_random_starts

TRAINING, HELD_OUT = 0, 1
"""Seed prefixes that separate training and held-out terrains."""


@dataclass(frozen=True, kw_only=True)
class ExplorationSetting:
    """Terrain and sensing of exploration. The defaults are MarsExplorer's (arXiv 2107.09996)."""

    terrain: Terrain = field(default_factory=Terrain)
    floors: Floors | None = None
    """Generated floors to explore instead of ``terrain``, of which only ``side`` is used and must equal theirs."""
    range_cells: int = value(6, at_least=1)
    """Range of the lidar."""
    rays: int = value(32, at_least=4)
    cell_m: float = value(0.5, unit="m", above=0.0)
    """Side of a cell; our choice: MarsExplorer has none. Its lidar then reaches 3 m, within a TurtleBot3's 3.5 m."""
    steps: int = value(400, at_least=1)
    """Longest episode, moves."""
    enough: float = value(0.95, above=0.0, at_most=1.0)
    """An episode ends when more than this share of all cells is known; on floors, of all visible cells."""

    def held_out(self, seed: int, count: int) -> Sites:
        """Return held-out sites, which training never uses."""
        rng = np.random.default_rng((HELD_OUT, seed))
        if self.floors is not None:
            return self.floors.draw(rng, count, self.cell_m, self.lidar(), held_out=True)
        return self._all_of(self.terrain.draw(rng, count))

    def training(self, rng: np.random.Generator, count: int) -> Sites:
        """Return training sites; each floor appears eight times, mirrored and with other starts."""
        if self.floors is None:
            return self._all_of(self.terrain.draw(rng, count))
        few = self.floors.draw(rng, -(-count // 8), self.cell_m, self.lidar(), held_out=False)
        many = few.take(np.arange(count) % len(few))
        return with_random_starts(many, rng).mirrored(rng)

    def lidar(self) -> GridLidar:
        """Return the rovers' lidar."""
        return GridLidar(self.terrain.side, self.terrain.side, self.range_cells, self.rays)

    def worlds(self, count: int) -> GridSimulator:
        """Return ``count`` rovers without positions."""
        return GridSimulator(count, self.lidar(), self.terrain.side, self.terrain.side)

    def origin(self) -> Array:
        """Return the corner (3,) of the grid in odom, m; odom is at the grid's centre."""
        half = 0.5 * self.terrain.side * self.cell_m
        return np.array([-half, -half, 0.0])

    def position(self, worlds: GridSimulator) -> Array:
        """Return the rovers' positions (N, 3) m, odom, at the centres of their cells."""
        row, column = np.divmod(worlds.cell, worlds.columns)
        middle = np.column_stack((column + 0.5, row + 0.5, np.zeros(len(row))))
        return np.asarray(self.origin() + middle * self.cell_m)

    def inputs(self, worlds: GridSimulator) -> dict[str, Array]:
        """Return the rovers' input signals by name, with a leading axis of N."""
        count = len(worlds.cell)
        return {
            "map": worlds.map.astype(float),
            "map_resolution": np.full((count, 1), self.cell_m),
            "map_origin": np.broadcast_to(self.origin(), (count, 3)),
            "position": self.position(worlds),
        }

    def _all_of(self, occupied: NDArray[np.bool_]) -> Sites:
        count = len(occupied)
        return Sites(occupied, np.zeros(count, dtype=np.intp), np.full(count, self.terrain.side**2))

    def choice(self, worlds: GridSimulator, waypoint: Array) -> NDArray[np.intp]:
        """Return the moves (N,) that lead to waypoints (N, 3) m, odom; -1: stay, -2: none does."""
        steps = np.rint((waypoint - self.position(worlds))[:, :2] / self.cell_m).astype(np.intp)
        found = np.full(len(steps), -2, dtype=np.intp)
        for k, move in enumerate(((0, 0), *MOVES)):
            found[(steps == move).all(axis=1)] = k - 1
        return found
