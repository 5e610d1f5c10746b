"""The setting of exploration on grids: terrain, lidar, and what a rover is told of where it is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.schema import value
from rlstack.sim.grids.lidar import GridLidar
from rlstack.sim.grids.sites import Sites
from rlstack.sim.grids.terrain import Floors, Terrain, moved
from rlstack.sim.grids.worlds import MOVES, GridWorlds

TRAINING, HELD_OUT = 0, 1
"""What the seed of a terrain is joined with, so that none of them is ever both."""


@dataclass(frozen=True, kw_only=True)
class ExplorationSetting:
    """What is explored, and with what. The defaults are MarsExplorer's (arXiv 2107.09996)."""

    terrain: Terrain = field(default_factory=Terrain)
    floors: Floors | None = None
    """If given, these generated floors are explored, and of ``terrain`` only ``side`` counts, which must be theirs."""
    range_cells: int = value(6, at_least=1)
    """Of the lidar."""
    rays: int = value(32, at_least=4)
    cell_m: float = value(0.5, unit="m", above=0.0)
    """Side of a cell; a choice: MarsExplorer has none. Its lidar sees 3 m so, within a TurtleBot3's 3.5 m."""
    steps: int = value(400, at_least=1)
    """Longest episode, moves."""
    enough: float = value(0.95, above=0.0, at_most=1.0)
    """An episode ends when more than this share is known: of all cells, on floors of those that can be seen at all."""

    def held_out(self, seed: int, count: int) -> Sites:
        """Return sites that are never trained on."""
        rng = np.random.default_rng((HELD_OUT, seed))
        if self.floors is not None:
            return self.floors.draw(rng, count, self.cell_m, self.lidar(), held_out=True)
        return self._all_of(self.terrain.draw(rng, count))

    def training(self, rng: np.random.Generator, count: int) -> Sites:
        """Return sites to train on; of floors there are eight of each, mirrored and begun in other places."""
        if self.floors is None:
            return self._all_of(self.terrain.draw(rng, count))
        few = self.floors.draw(rng, -(-count // 8), self.cell_m, self.lidar(), held_out=False)
        many = few.take(np.arange(count) % len(few))
        return moved(many, rng).turned(rng)

    def lidar(self) -> GridLidar:
        """Return what the rovers see with."""
        return GridLidar(self.terrain.side, self.terrain.side, self.range_cells, self.rays)

    def worlds(self, count: int) -> GridWorlds:
        """Return ``count`` rovers that are yet to be placed."""
        return GridWorlds(count, self.lidar(), self.terrain.side, self.terrain.side)

    def origin(self) -> Array:
        """Return the corner (3,) of the grid in odom, m: odom is in its middle."""
        half = 0.5 * self.terrain.side * self.cell_m
        return np.array([-half, -half, 0.0])

    def position(self, worlds: GridWorlds) -> Array:
        """Return where the rovers are, (N, 3) m, odom: in the middle of their cells."""
        row, column = np.divmod(worlds.cell, worlds.columns)
        middle = np.column_stack((column + 0.5, row + 0.5, np.zeros(len(row))))
        return np.asarray(self.origin() + middle * self.cell_m)

    def inputs(self, worlds: GridWorlds) -> dict[str, Array]:
        """Return what rovers are given, signals by name with a leading axis of N."""
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

    def choice(self, worlds: GridWorlds, waypoint: Array) -> NDArray[np.intp]:
        """Return which of the moves (N,) leads to waypoints (N, 3) m, odom; -1: to stay, -2: none does."""
        steps = np.rint((waypoint - self.position(worlds))[:, :2] / self.cell_m).astype(np.intp)
        found = np.full(len(steps), -2, dtype=np.intp)
        for k, move in enumerate(((0, 0), *MOVES)):
            found[(steps == move).all(axis=1)] = k - 1
        return found
