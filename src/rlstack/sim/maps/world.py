"""Conversion of a map to a world with the same obstacles for every engine."""

from __future__ import annotations

import numpy as np

from rlstack.sim.floor_plan import Point
from rlstack.sim.maps.floor_map import HEIGHT_M, FloorMap
from rlstack.sim.maps.generate import scale_of
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from rlstack.sim.worlds import Layout
from rlstack.sim.worlds._pieces import CARTON, CONCRETE, ORANGE, STEEL, WALL, WOOD, Colour

_LONG, _THIN_M, _THICK_M = 5.0, 0.06, 0.65
"""Boxes with this ratio of length to thickness look like walls, and so do boxes beyond these half thicknesses, m."""
_HEADROOM = 4.0
"""Height of the bounds, in heights of the obstacles."""


def layout_of(drawn: FloorMap, starts: tuple[Point, ...] = ()) -> Layout:
    """Return a map as a world generator's layout.

    Args:
        drawn: The map; the world has its frame, so the first robot starts at the map's start, not the origin.
        starts: Start positions of further robots, m.
    """
    scale = max(1.0, scale_of(drawn.radius_m))
    height = HEIGHT_M * scale
    obstacles = []
    for number, (x, y, half_x, half_y, yaw) in enumerate(drawn.boxes, start=1):
        least, most = sorted((half_x, half_y))
        walled = number <= 4 or most > _LONG * least or not _THIN_M * scale < least < _THICK_M * scale
        colour: Colour = WALL if walled else (CONCRETE, CARTON, WOOD, STEEL)[number % 4]
        obstacles.append(
            Obstacle(
                name=f"{'wall' if walled else 'box'}_{number}",
                shape="box",
                size_m=(float(2.0 * half_x), float(2.0 * half_y), height),
                position_m=(float(x), float(y), height / 2.0),
                yaw_rad=float(yaw),
                colour=colour,
            )
        )
    for number, (x, y, radius) in enumerate(drawn.circles, start=1):
        obstacles.append(
            Obstacle(
                name=f"pole_{number}",
                shape="cylinder",
                size_m=(float(2.0 * radius), float(2.0 * radius), height),
                position_m=(float(x), float(y), height / 2.0),
                colour=ORANGE,
            )
        )
    x, y = drawn.size_m[0] / 2.0, drawn.size_m[1] / 2.0
    first = (float(drawn.start[0]), float(drawn.start[1]), 0.0)
    return Layout(
        tuple(obstacles),
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


def further_starts(maps: list[FloorMap], apart_m: float) -> tuple[Point, ...]:
    """Return the maps' starts that are ``apart_m`` from each other and from the first map's start and goal, m."""
    taken = [maps[0].goal[:2], maps[0].start[:2]]
    found: list[Point] = []
    for drawn in maps[1:]:
        at = drawn.start[:2]
        if min(float(np.hypot(*(at - other))) for other in taken) >= apart_m:
            taken.append(at)
            found.append((float(at[0]), float(at[1]), 0.0))
    return tuple(found)
