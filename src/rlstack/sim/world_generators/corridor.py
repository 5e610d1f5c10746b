"""A corridor with right-angled bends, clutter along its walls and beams overhead; it begins at the origin, along x."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from rlstack.schema import value
from rlstack.sim.colours import CARTON, CONCRETE, STEEL, TEXTILE, WOOD
from rlstack.sim.free_space import Rectangle
from rlstack.sim.world_builder import Dice, Piece, WorldBuilder, around, box, walls_around
from rlstack.sim.world_generators import WorldGenerator, WorldLayout

_WALL_GAP_M = 0.02


@dataclass(frozen=True, kw_only=True)
class CorridorSettings:
    """Settings of a corridor; pairs are ranges of uniform draws."""

    width_m: float = value(2.4, unit="m", at_least=0.8, at_most=50.0)
    """Distance between the walls."""
    height_m: float = value(2.6, unit="m", at_least=0.5, at_most=50.0)
    """Height of the walls."""
    wall_thickness_m: float = value(0.15, unit="m", at_least=0.01, at_most=2.0)
    bends: int = value(4, at_least=0, at_most=40)
    leg_m: tuple[float, float] = value((5.0, 9.0), unit="m", above=0.0, at_most=200.0)
    """Length between two bends, from centre to centre."""
    clutter: int = value(14, at_least=0, at_most=500)
    """Number of objects along the walls; fewer if there is no room."""
    passage_m: float = value(1.2, unit="m", above=0.0)
    """Gap between clutter and the opposite wall, and between clutter."""
    beams: int = value(3, at_least=0, at_most=100)
    """Number of overhead beams across the corridor."""
    beam_height_m: float = value(2.0, unit="m", above=0.0)
    """Height of a beam's lower side above the floor."""

    def __post_init__(self) -> None:
        low, high = self.leg_m
        least = self.width_m + 2.0 * self.wall_thickness_m
        if not least <= low <= high:
            raise ValueError(
                f"leg_m: [{low}, {high}] is not allowed: the first must not exceed the second and be at least"
                f" {least:g} m, the width and two walls, or legs would run into each other."
            )
        if self.beams and self.beam_height_m > self.height_m - 0.2:
            raise ValueError(f"beam_height_m: {self.beam_height_m} is not allowed: must be 0.2 m below height_m.")


def draw(settings: CorridorSettings, rng: np.random.Generator) -> WorldLayout:
    """Return legs along x and sideways in turn, so that they never cross, with clutter and beams."""
    dice, scene = Dice(rng), WorldBuilder()
    legs = _legs(settings, dice)
    half = settings.width_m / 2.0
    inside: list[Rectangle] = [
        (min(x0, x1) - half, min(y0, y1) - half, max(x0, x1) + half, max(y0, y1) + half) for x0, y0, x1, y1 in legs
    ]
    walls_around(inside, settings.wall_thickness_m, settings.height_m, scene)
    scene.covered.clear()  # clutter is inside by construction
    scene.keep_free(0.0, 0.0, half, half)
    headroom = settings.beam_height_m if settings.beams else settings.height_m
    for number in range(settings.clutter):
        piece = _clutter(dice, number, settings.width_m - settings.passage_m - _WALL_GAP_M, headroom)
        if piece is not None:
            scene.place(piece, partial(_by_wall, dice, legs, half, piece.size_m), settings.passage_m)
    floor, scene.covered = scene.covered, []
    for _ in range(settings.beams):
        size = (dice.between(0.15, 0.35), settings.width_m, 0.2)
        beam = box("beam", size, CONCRETE, z=dice.between(settings.beam_height_m, settings.height_m - size[2]))
        scene.place(beam, partial(_along, dice, legs, 1.5 * half), 0.5)
    scene.covered = floor
    return WorldLayout(
        tuple(scene.obstacles), around(inside, settings.wall_thickness_m, settings.height_m), tuple(inside)
    )


def _legs(settings: CorridorSettings, dice: Dice) -> list[Rectangle]:
    """Return the centre lines of the legs in order: x0, y0, x1, y1."""
    legs, x, y = [], 0.0, 0.0
    for number in range(settings.bends + 1):
        length = round(dice.between(*settings.leg_m), 1)
        side = 1.0 if dice.chance(0.5) else -1.0
        ahead = (x + length, y) if number % 2 == 0 else (x, y + side * length)
        legs.append((x, y, *ahead))
        x, y = ahead
    return legs


def _along(dice: Dice, legs: list[Rectangle], margin: float) -> tuple[float, float, float]:
    """Return a pose on the centre line, a margin from the bends, along the leg."""
    x0, y0, x1, y1 = legs[dice.below(len(legs))]
    length = math.hypot(x1 - x0, y1 - y0)
    share = dice.between(margin, length - margin) / length
    return x0 + share * (x1 - x0), y0 + share * (y1 - y0), math.atan2(y1 - y0, x1 - x0)


def _by_wall(dice: Dice, legs: list[Rectangle], half: float, size: tuple[float, float]) -> tuple[float, float, float]:
    x, y, heading = _along(dice, legs, half + size[0] / 2.0)
    yaw = heading if dice.chance(0.5) else heading + math.pi  # the wall is at its back, its own -y
    offset = half - size[1] / 2.0 - _WALL_GAP_M
    return x + offset * math.sin(yaw), y - offset * math.cos(yaw), yaw


def _clutter(dice: Dice, number: int, most: float, headroom: float) -> Piece | None:
    """Return clutter at most ``most`` m deep and ``headroom`` m high; None if ``most`` is too small."""
    if most < 0.1:
        return None
    kind = number % 4
    if kind == 0:
        size, name, colour = (dice.between(0.6, 1.4), dice.between(0.35, 0.6), dice.between(0.9, 2.0)), "cabinet", WOOD
    elif kind == 1:
        size, name, colour = (dice.between(0.3, 0.45),) * 2 + (dice.between(0.5, 0.9),), "bin", STEEL
    elif kind == 2:
        size, name, colour = (dice.between(0.4, 0.9), dice.between(0.4, 0.8), dice.between(0.4, 1.2)), "carton", CARTON
    else:
        size, name, colour = (dice.between(1.0, 1.6), dice.between(0.4, 0.5), 0.45), "bench", TEXTILE
    length, depth, height = size[0], min(size[1], most), min(size[2], headroom)
    if kind == 1:
        return box(name, (depth, depth, height), dice.tinted(colour), shape="cylinder")
    return box(name, (length, depth, height), dice.tinted(colour))


GENERATOR = WorldGenerator(CorridorSettings, draw)
