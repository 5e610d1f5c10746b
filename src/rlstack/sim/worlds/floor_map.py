"""A map for a mobile base as a world: rooms, corridors, doorways, clutter, dead ends or a maze, with a goal."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlstack.schema import value
from rlstack.sim.worlds import Generator, Layout

_PLACES = 12
"""Number of further start positions to try."""


@dataclass(frozen=True, kw_only=True)
class FloorMapSettings:
    """Settings of a map world."""

    kind: str = "clutter"
    """One of :data:`rlstack.sim.maps.kinds.KINDS`."""
    difficulty: float = value(0.5, at_least=0.0, at_most=1.0)
    """Difficulty: narrower passages, more obstacles, farther goals."""
    radius_m: float = value(0.105, unit="m", above=0.0, at_most=5.0)
    """Radius of the robot; the map of a larger robot is larger."""
    size_m: tuple[float, float] | None = value(None, unit="m", above=0.0)
    """Size of the floor, outer walls included; none: 8 x 8 m, scaled up for a radius above 0.2 m."""
    at_least_m: float | None = value(None, unit="m", at_least=0.0)
    """Least length of the shortest path to the goal; none: 0.3 to 0.5 of the floor's shorter side, by difficulty."""
    at_most_m: float | None = value(None, unit="m", above=0.0)
    """Greatest length of the shortest path to the goal; none: any."""


def draw(settings: FloorMapSettings, seed: int) -> Layout:
    """Return the map of a seed, the same as the batch simulator's, and start places for more robots than one."""
    # maps need scipy, and worlds of other generators do not
    from rlstack.sim.maps.generate import draw_maps, scale_of
    from rlstack.sim.maps.world import further_starts, layout_of

    maps = draw_maps(
        settings.kind,
        seed,
        settings.difficulty,
        settings.radius_m,
        size_m=settings.size_m,
        at_least_m=settings.at_least_m,
        at_most_m=math.inf if settings.at_most_m is None else settings.at_most_m,
        starts=1 + _PLACES,
    )
    return layout_of(maps[0], further_starts(maps, scale_of(settings.radius_m)))


GENERATOR = Generator(FloorMapSettings, draw, takes_seed=True)
