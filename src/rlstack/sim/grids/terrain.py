"""Random terrain for grid worlds, as the public code of MarsExplorer draws it.

Koutras, Kapoutsis, Amanatiadis, Kosmatopoulos: "MarsExplorer: Exploration of Unknown Terrains via Deep Reinforcement
Learning and Procedurally Generated Environments" (arXiv 2107.09996). The defaults are those of its code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Mask
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Terrain:
    """From what terrain is drawn: free ground with boulders at random, which may overlap."""

    side: int = value(21, unit="cells", at_least=4)
    """Rows and columns."""
    obstacles: int = value(12, at_least=0)
    smallest: int = value(2, unit="cells", at_least=1)
    largest: int = value(2, unit="cells", at_least=1)
    """Width and height of an obstacle are drawn from ``smallest`` to ``largest``, each by itself."""
    margin: int = value(1, unit="cells", at_least=1)
    """An obstacle's first cell is at least this far from the first row and column, and more than this from the last."""

    def __post_init__(self) -> None:
        if self.largest < self.smallest or self.largest > self.side - 3 or self.side - 1 - self.margin <= self.margin:
            raise ValueError(
                f"side {self.side}, smallest {self.smallest}, largest {self.largest} and margin {self.margin} do not go"
                " together: obstacles must fit, and smallest must not be above largest."
            )

    def draw(self, rng: np.random.Generator, count: int) -> Mask:
        """Return ``count`` terrains (count, side, side): where obstacles are. The cell (0, 0) is free in each.

        An obstacle that would leave the grid is cut off at its edge.
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
