"""World generators, one file each; other packages add some through the entry-point group ``rlstack.worlds``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlstack.registry import Registry
from rlstack.sim.free_space import Point, Rectangle
from rlstack.sim.obstacle import Obstacle

if TYPE_CHECKING:
    from rlstack.sim.maps.floor_map import FloorMap


@dataclass(frozen=True)
class WorldLayout:
    """A generator's result; the world's origin, where the first robot starts, must be free.

    A generator that chooses start positions itself sets ``starts_m``.
    """

    obstacles: tuple[Obstacle, ...]
    bounds_m: tuple[Point, Point]
    """Lower and upper corner of the obstacles' bounding box; its lowest height is 0."""
    inside: tuple[Rectangle, ...]
    """The usable floor, which must be connected and contains the start positions; rectangles may overlap."""
    starts_m: tuple[Point, ...] | None = None
    """Free start positions, the first robot's first; None: they are searched, from the origin on."""
    floor_map: FloorMap | None = None
    """The map of a mobile base that the obstacles come from, if any."""


@dataclass(frozen=True)
class WorldGenerator:
    """A world generator.

    Args:
        settings: A frozen dataclass of a world file's settings, each with a default.
        draw: Draws a layout from such settings and a ``numpy.random.Generator``. Use only its ``random()``, whose
            numbers NumPy keeps the same in every version.
        takes_seed: Whether ``draw`` takes the world's seed instead of a random generator. Its layout must have
            ``starts_m`` and is not drawn again, and a world file cannot add obstacles to it.
    """

    settings: type
    draw: Callable[[Any, Any], WorldLayout]
    takes_seed: bool = False


WORLD_GENERATORS = Registry("world generator", "rlstack.sim.world_generators", "GENERATOR", "rlstack.worlds")
"""Every known generator by name; an entry is a :class:`WorldGenerator`."""
