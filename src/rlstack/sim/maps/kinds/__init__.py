"""Kinds of map, one file each; another package adds one by the entry-point group ``rlstack.maps``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rlstack.registry import Registry
from rlstack.sim.maps.map_builder import MapBuilder


@dataclass(frozen=True)
class Kind:
    """A way to draw maps.

    Args:
        draw: Draws obstacles on a plan that has its outer walls. What it draws need not leave a way everywhere: start
            and goal are chosen where there is one, and a plan without such places is drawn again.
        prefer: Which of several random starts is taken, the more often the more difficult the map: the farthest from
            the goal, or the one whose way is longest for its distance; None takes the first.
    """

    draw: Callable[[MapBuilder], None]
    prefer: Literal["far", "detour"] | None = None


KINDS = Registry("kind of map", "rlstack.sim.maps.kinds", "KIND", "rlstack.maps")
"""Every known kind by name; an entry is a :class:`Kind`."""


@lru_cache
def find_kind(name: str) -> Kind:
    """Return a kind by name; to ask the registry for each of thousands of maps would take longer than to draw them.

    Raises:
        UserError: There is none such.
    """
    kind: Kind = KINDS.load(name)
    return kind
