"""World generators, one file each; another package adds one by the entry-point group ``rlstack.worlds``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.registry import Registry
from rlstack.sim.floor_plan import Rectangle
from rlstack.sim.obstacle import Obstacle

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Layout:
    """What a generator has drawn; the world's origin, where the first robot starts, must be free."""

    obstacles: tuple[Obstacle, ...]
    bounds_m: tuple[Point, Point]
    """The corners of the upright box that all obstacles are in, the lower one first; its lowest height is 0."""
    inside: tuple[Rectangle, ...]
    """The floor that is meant to be used, which start places are on and nothing may cut off; may overlap."""


@dataclass(frozen=True)
class Generator:
    """A way to draw worlds.

    Args:
        settings: A frozen dataclass of what a world file may set, each with a default.
        draw: Draws a layout from such settings. Only ``rng.random()`` may be drawn from: NumPy promises that the other
            methods' numbers may change with its version, and a seed is to give the same world for ever.
    """

    settings: type
    draw: Callable[[Any, np.random.Generator], Layout]


GENERATORS = Registry("world generator", "rlstack.sim.worlds", "GENERATOR", "rlstack.worlds")
"""Every known generator by name; an entry is a :class:`Generator`."""
