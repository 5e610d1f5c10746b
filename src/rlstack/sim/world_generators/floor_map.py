"""A map for a mobile base as a world: rooms, corridors, doorways, clutter, dead ends or a maze, with a goal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlstack.schema import value
from rlstack.sim.colours import CARTON, CONCRETE, ORANGE, STEEL, WALL, WOOD, Colour
from rlstack.sim.free_space import Point
from rlstack.sim.maps.floor_map import HEIGHT_M, FloorMap
from rlstack.sim.maps.generate import draw_maps, scale_of
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from rlstack.sim.world_generators import WorldGenerator, WorldLayout

_PLACES = 12
"""Number of further start positions to try."""
_LONG, _THIN_M, _THICK_M = 5.0, 0.06, 0.65
"""Boxes with this ratio of length to thickness look like walls, and so do boxes beyond these half thicknesses, m."""
_HEADROOM = 4.0
"""Height of the bounds, in heights of the obstacles."""

MAX_FLOOR_M2 = 10_000.0
"""Largest floor for a robot of up to 0.2 m radius, m^2: its grid has millions of cells."""


@dataclass(frozen=True, kw_only=True)
class FloorMapSettings:
    """Settings of a map world."""

    kind: str = "clutter"
    """One of :data:`rlstack.sim.maps.generators.MAP_GENERATORS`."""
    difficulty: float = value(0.5, at_least=0.0, at_most=1.0)
    """Difficulty: narrower passages, more obstacles, farther goals."""
    radius_m: float = value(0.105, unit="m", at_least=0.02, at_most=5.0)
    """Radius of the robot; the map of a larger robot is larger."""
    size_m: tuple[float, float] | None = value(None, unit="m", above=0.0)
    """Size of the floor, outer walls included; none: 8 x 8 m, scaled up for a radius above 0.2 m."""
    at_least_m: float | None = value(None, unit="m", at_least=0.0)
    """Least length of the shortest path to the goal; none: 0.3 to 0.5 of the floor's shorter side, by difficulty."""
    at_most_m: float | None = value(None, unit="m", above=0.0)
    """Greatest length of the shortest path to the goal; none: any."""

    def __post_init__(self) -> None:
        scale = max(1e-3, scale_of(self.radius_m))
        if self.size_m is not None and self.size_m[0] * self.size_m[1] > MAX_FLOOR_M2 * scale**2:
            raise ValueError(
                f"size_m: {list(self.size_m)} is not allowed: for a radius of {self.radius_m:g} m the floor must have"
                f" at most {MAX_FLOOR_M2 * scale**2:g} m^2."
            )


def draw(settings: FloorMapSettings, seed: int) -> WorldLayout:
    """Return the map of a seed, the same as the batch simulator's, and start places for more robots than one."""
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
    taken, starts = [maps[0].goal[:2], maps[0].start[:2]], []
    for x, y, _ in (drawn.start.tolist() for drawn in maps[1:]):
        if min(float(np.hypot(*(np.array((x, y)) - other))) for other in taken) >= scale_of(settings.radius_m):
            taken.append(np.array((x, y)))
            starts.append((x, y, 0.0))
    return layout_of(maps[0], tuple(starts))


def layout_of(drawn: FloorMap, starts: tuple[Point, ...] = ()) -> WorldLayout:
    """Return a map as a world generator's layout.

    Args:
        drawn: The map; the world has its frame, so the first robot starts at the map's start, not the origin.
        starts: Start positions of further robots, m.
    """
    scale = max(1.0, scale_of(drawn.radius_m))
    height = HEIGHT_M * scale
    shapes: list[tuple[str, Literal["box", "cylinder"], Colour, list[float]]] = []
    for number, (x, y, half_x, half_y, yaw) in enumerate(drawn.boxes.tolist(), start=1):
        least, most = sorted((half_x, half_y))
        walled = number <= 4 or most > _LONG * least or not _THIN_M * scale < least < _THICK_M * scale
        colour = WALL if walled else (CONCRETE, CARTON, WOOD, STEEL)[number % 4]
        shapes.append((f"{'wall' if walled else 'box'}_{number}", "box", colour, [x, y, half_x, half_y, yaw]))
    for number, (x, y, radius) in enumerate(drawn.circles.tolist(), start=1):
        shapes.append((f"pole_{number}", "cylinder", ORANGE, [x, y, radius, radius, 0.0]))
    obstacles = tuple(
        Obstacle(
            name=name,
            shape=shape,
            size_m=(2.0 * half_x, 2.0 * half_y, height),
            position_m=(x, y, height / 2.0),
            yaw_rad=yaw,
            colour=colour,
        )
        for name, shape, colour, (x, y, half_x, half_y, yaw) in shapes
    )
    x, y = drawn.size_m[0] / 2.0, drawn.size_m[1] / 2.0
    first = (float(drawn.start[0]), float(drawn.start[1]), 0.0)
    return WorldLayout(
        obstacles,
        ((-x, -y, 0.0), (x, y, _HEADROOM * height)),
        ((-x, -y, x, y),),
        starts_m=(first, *starts),
        floor_map=drawn,
    )


def world_of(drawn: FloorMap) -> World:
    """Return a map as a world; ``load_world`` reproduces it from its title if the map has default lengths.

    The start of the single robot is the map's; goal and headings are in ``floor_map``.
    """
    layout = layout_of(drawn)
    return World(
        name=drawn.kind,
        seed=drawn.seed,
        settings=f"difficulty={drawn.difficulty!r},radius_m={drawn.radius_m!r}",
        floor=True,
        obstacles=layout.obstacles,
        bounds_m=layout.bounds_m,
        starts_m=layout.starts_m or (),
        floor_map=drawn,
    )


GENERATOR = WorldGenerator(FloorMapSettings, draw, takes_seed=True)
