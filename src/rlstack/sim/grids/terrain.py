"""Terrain of grid worlds: MarsExplorer's boulders and the generated floors of mobile bases.

Koutras, Kapoutsis, Amanatiadis, Kosmatopoulos: "MarsExplorer: Exploration of Unknown Terrains via Deep Reinforcement
Learning and Procedurally Generated Environments" (arXiv 2107.09996). ``Terrain``'s defaults are those of its code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Mask
from rlstack.schema import value
from rlstack.sim.grids.lidar import GridLidar
from rlstack.sim.grids.simulator import Sites, observable_cells, reachable
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.generate import HELD_OUT_SEEDS, TRAINING_SEEDS, draw_map
from rlstack.sim.maps.occupancy_grid import occupancy


@dataclass(frozen=True, kw_only=True)
class Terrain:
    """Settings of random terrain: free ground with boulders that may overlap."""

    side: int = value(21, unit="cells", at_least=4)
    """Number of rows and of columns."""
    obstacles: int = value(12, at_least=0)
    smallest: int = value(2, unit="cells", at_least=1)
    largest: int = value(2, unit="cells", at_least=1)
    """Width and height of an obstacle are drawn independently from ``smallest`` to ``largest``."""
    margin: int = value(1, unit="cells", at_least=1)
    """Least distance of an obstacle's first cell from the first row and column; from the last, it is greater."""

    def __post_init__(self) -> None:
        if self.largest < self.smallest or self.largest > self.side - 3 or self.side - 1 - self.margin <= self.margin:
            raise ValueError(
                f"side {self.side}, smallest {self.smallest}, largest {self.largest} and margin {self.margin} do not go"
                " together: obstacles must fit, and smallest must not be above largest."
            )

    def draw(self, rng: np.random.Generator, count: int) -> Mask:
        """Draw the obstacle masks of ``count`` terrains (count, side, side); the cell (0, 0) is always free.

        Obstacles are cut off at the grid's edge.
        """
        shape = (count, self.obstacles)
        first = rng.integers(self.margin, self.side - 1 - self.margin, (2, *shape))
        extent = rng.integers(self.smallest, self.largest + 1, (2, *shape))
        occupied = np.zeros((count, self.side, self.side), dtype=np.bool_)
        world = np.broadcast_to(np.arange(count)[:, None], shape)
        for down in range(self.largest):
            for right in range(self.largest):
                part = (down < extent[0]) & (right < extent[1])
                row, column = (np.minimum(f + k, self.side - 1)[part] for f, k in zip(first, (down, right)))
                occupied[world[part], row, column] = True
        return occupied


_TRIES = 20


@dataclass(frozen=True, kw_only=True)
class Floors:
    """Settings of floors as grid worlds; a cell is occupied if an obstacle reaches into it."""

    kinds: tuple[str, ...] = ("clutter", "rooms", "corridors", "doorways", "dead_ends", "mazes")
    """Kinds of map, used in turn."""
    difficulty: tuple[float, float] = value((0.0, 0.5), at_least=0.0, at_most=1.0)
    """Least and greatest difficulty; in harder maps, doors are narrower than two cells of 0.25 m and may vanish."""
    radius_m: float = value(0.124, unit="m", above=0.0)
    """Radius of the base that floors are drawn for: a TurtleBot3's."""
    least: float = value(0.3, above=0.0, at_most=1.0)
    """Least observable share of a floor's cells; other floors are drawn again."""

    def maps(self, rng: np.random.Generator, count: int, *, held_out: bool) -> list[FloorMap]:
        """Return ``count`` floors with training seeds or with held-out seeds."""
        seeds = HELD_OUT_SEEDS if held_out else TRAINING_SEEDS
        return [
            draw_map(
                self.kinds[n % len(self.kinds)],
                int(rng.integers(seeds.start, seeds.stop)),
                float(rng.uniform(*self.difficulty)),
                self.radius_m,
            )
            for n in range(count)
        ]

    def site(self, drawn: FloorMap, cell_m: float, lidar: GridLidar) -> Sites | None:
        """Return one floor as a site, or None if too little of it is observable."""
        grid = occupancy(drawn, cell_m)
        row, column = grid.frame.cells(drawn.start[:2])[0]
        if grid.occupied[row, column]:
            return None
        occupied, start = grid.occupied[None], np.array([row * grid.occupied.shape[1] + column])
        total = observable_cells(lidar, occupied, start)
        return Sites(occupied, start, total) if total[0] >= self.least * grid.occupied.size else None

    def draw(self, rng: np.random.Generator, count: int, cell_m: float, lidar: GridLidar, *, held_out: bool) -> Sites:
        """Return ``count`` sites, each with another floor."""
        found: list[Sites] = []
        for _ in range(_TRIES):
            for drawn in self.maps(rng, count - len(found), held_out=held_out):
                if (site := self.site(drawn, cell_m, lidar)) is not None:
                    found.append(site)
            if len(found) == count:
                break
        occupied, start, total = zip(*((site.occupied, site.start, site.total) for site in found))
        return Sites(np.concatenate(occupied), np.concatenate(start), np.concatenate(total))


def with_random_starts(sites: Sites, rng: np.random.Generator) -> Sites:
    """Return the sites with random starts that are reachable from the original ones."""
    there = reachable(sites.occupied, sites.start)
    return Sites(sites.occupied, np.where(there, rng.random(there.shape), -1.0).argmax(axis=1), sites.total)
