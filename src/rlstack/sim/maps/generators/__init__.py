"""Kinds of map, one file each; other packages add kinds through the entry-point group ``rlstack.maps``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rlstack.registry import Registry
from rlstack.sim.maps.map_builder import MapBuilder


@dataclass(frozen=True)
class MapGenerator:
    """A map generator.

    Args:
        draw: Draws obstacles on a plan with outer walls. They may cut off parts of the floor: start and goal are chosen
            where a path exists, and a plan without one is drawn again.
        prefer: Which of several random starts is preferred, more often in more difficult maps: the farthest from the
            goal, or the one with the longest path for its distance; None takes the first.
        circles: Most circles of a map: the number of slots in the batch simulator.
    """

    draw: Callable[[MapBuilder], None]
    prefer: Literal["far", "detour"] | None = None
    circles: int = 8


MAP_GENERATORS = Registry("kind of map", "rlstack.sim.maps.generators", "GENERATOR", "rlstack.maps")
"""Every known kind by name; an entry is a :class:`MapGenerator`."""

find_map_generator: Callable[[str], MapGenerator] = lru_cache(MAP_GENERATORS.load)
"""Return a generator by name, cached: thousands of registry lookups would take longer than drawing the maps."""
