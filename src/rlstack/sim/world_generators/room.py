"""Two furnished rooms joined by a doorway; the origin is in the larger room."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rlstack.schema import value
from rlstack.sim.colours import CARTON, DARK_WOOD, GREEN, LAMP, STEEL, TEXTILE, WALL, WOOD, Colour
from rlstack.sim.free_space import Rectangle
from rlstack.sim.world_builder import Dice, Part, Piece, WorldBuilder, around, box, walls_around
from rlstack.sim.world_generators import WorldGenerator, WorldLayout

_WALL_GAP_M, _CHAIR_M = 0.02, 0.45


@dataclass(frozen=True, kw_only=True)
class RoomSettings:
    """Settings of a room."""

    size_m: tuple[float, float, float] = value((12.0, 8.0, 2.8), unit="m", at_least=2.0, at_most=200.0)
    """x and y inside the outer walls, and the height of the walls."""
    wall_thickness_m: float = value(0.15, unit="m", at_least=0.01, at_most=2.0)
    doorway_m: tuple[float, float] = value((1.2, 2.1), unit="m", above=0.0)
    """Width and height of the opening in the wall between the rooms."""
    furniture: int = value(15, at_least=0, at_most=500)
    """Number of pieces, half of them along the walls, half anywhere; fewer if there is no room."""
    gap_m: float = value(1.0, unit="m", at_least=0.0)
    """Gap between a free-standing piece and all others."""
    clearing_m: float = value(1.0, unit="m", at_least=0.0)
    """Least distance of furniture from the origin and the doorway."""

    def __post_init__(self) -> None:
        width, height = self.doorway_m
        if width > self.size_m[1] or height > self.size_m[2]:
            raise ValueError(
                f"doorway_m: [{width}, {height}] is not allowed: must fit in a wall of {self.size_m[1]} m"
                f" by {self.size_m[2]} m."
            )


def draw(settings: RoomSettings, rng: np.random.Generator) -> WorldLayout:
    """Return walls, doorway and lintel, and furniture that neither overlaps nor blocks the doorway."""
    dice, scene = Dice(rng), WorldBuilder()
    (length, width, height), thickness = settings.size_m, settings.wall_thickness_m
    x, y = length / 2.0, width / 2.0
    wall = round((1.0 if dice.chance(0.5) else -1.0) * dice.between(0.1, 0.2) * length, 2)  # middle of the inner wall
    door_width, door_height = settings.doorway_m
    slack = y - door_width / 2.0
    door = round(dice.between(-0.6, 0.6) * slack, 2)
    rooms: tuple[Rectangle, Rectangle] = (
        (-x, -y, wall - thickness / 2.0, y),
        (wall + thickness / 2.0, -y, x, y),
    )
    doorway = (wall - thickness / 2.0, door - door_width / 2.0, wall + thickness / 2.0, door + door_width / 2.0)
    inside = (*rooms, doorway)
    walls_around(inside, thickness, height, scene)
    if height - door_height >= 0.01:
        scene.add(box("lintel", (thickness, door_width, height - door_height), WALL, z=door_height), wall, door)
    scene.covered.clear()  # furniture is inside by construction
    scene.keep_free(0.0, 0.0, settings.clearing_m, settings.clearing_m)
    scene.keep_free(wall, door, thickness / 2.0 + settings.clearing_m, door_width / 2.0)
    lined = (settings.furniture + 1) // 2
    for number in range(settings.furniture):
        kinds, place, gap = (_LINED, _by_wall, 0.1) if number < lined else (_FREE, _anywhere, settings.gap_m)
        piece = kinds[number % len(kinds)](dice)
        if max(p.at_m[2] + p.size_m[2] / 2.0 for p in piece.parts) > height:
            continue
        # more often in the larger room
        first = dice.between(-x, x) < wall
        scene.place(piece, partial(place, dice, rooms[0 if first else 1], piece.size_m, settings.gap_m), gap)
    return WorldLayout(tuple(scene.obstacles), around(inside, thickness, height), inside)


Spot = tuple[float, float, float]


def _by_wall(dice: Dice, room: Rectangle, size: tuple[float, float], gap: float) -> Spot:
    """Return a spot where a piece has its back to a wall."""
    yaw = dice.below(4) * math.pi / 2.0
    along, deep = size[0] / 2.0 + _WALL_GAP_M, size[1] / 2.0 + _WALL_GAP_M
    x0, y0, x1, y1 = room
    if yaw in (0.0, math.pi):
        return dice.between(x0 + along, x1 - along), (y0 + deep if yaw == 0.0 else y1 - deep), yaw
    return (x1 - deep if yaw < math.pi else x0 + deep), dice.between(y0 + along, y1 - along), yaw


def _anywhere(dice: Dice, room: Rectangle, size: tuple[float, float], gap: float) -> Spot:
    """Return a spot with a passage all around, turned at random."""
    yaw = dice.between(-math.pi, math.pi)
    margin = math.hypot(*size) / 2.0 + gap
    x0, y0, x1, y1 = room
    return dice.between(x0 + margin, x1 - margin), dice.between(y0 + margin, y1 - margin), yaw


def _legs(
    size: tuple[float, float, float], at: tuple[float, float], side: float, colour: Colour, suffix: str
) -> list[Part]:
    """Return four legs at the corners of a rectangle of floor."""
    x, y = (size[0] - side) / 2.0, (size[1] - side) / 2.0
    corners = ((x, y), (-x, y), (-x, -y), (x, -y))
    return [
        Part("box", (side, side, size[2]), (at[0] + a, at[1] + b, size[2] / 2.0), colour, f"{suffix}_leg_{n}")
        for n, (a, b) in enumerate(corners, start=1)
    ]


def _table(dice: Dice) -> Piece:
    """Return a table with a chair on both of its long sides."""
    length, depth, height = dice.between(1.2, 1.8), dice.between(0.7, 0.9), 0.74
    colour, chairs = dice.tinted(WOOD), dice.tinted(DARK_WOOD)
    top = Part("box", (length, depth, 0.04), (0.0, 0.0, height - 0.02), colour, "_top")
    legs = _legs((length, depth, height - 0.04), (0.0, 0.0), 0.06, colour, "")
    away, shift = depth / 2.0 + 0.1 + _CHAIR_M / 2.0, (length - _CHAIR_M) / 2.0
    seats = [
        part
        for number, side in ((1, -1.0), (2, 1.0))
        for part in _chair(dice.between(-shift, shift), side * away, side, chairs, f"_chair_{number}")
    ]
    return Piece("table", (length, 2.0 * away + _CHAIR_M), (top, *legs, *seats))


def _chair(x: float, y: float, side: float, colour: Colour, suffix: str) -> list[Part]:
    """Return a chair at x, y with its back on that side of it along y."""
    seat = Part("box", (_CHAIR_M, _CHAIR_M, 0.05), (x, y, 0.445), colour, f"{suffix}_seat")
    back = Part("box", (_CHAIR_M, 0.05, 0.45), (x, y + side * (_CHAIR_M - 0.05) / 2.0, 0.695), colour, f"{suffix}_back")
    return [seat, back, *_legs((_CHAIR_M, _CHAIR_M, 0.42), (x, y), 0.04, colour, suffix)]


def _cabinet(dice: Dice) -> Piece:
    return box("cabinet", (dice.between(0.8, 1.6), 0.45, dice.between(1.1, 2.1)), dice.tinted(WOOD))


def _shelf(dice: Dice) -> Piece:
    length, depth, colour, levels = dice.between(0.8, 1.4), 0.32, dice.tinted(WALL, 0.03), 5
    height, side = 1.8, 0.03
    boards = [
        Part(
            "box",
            (length - 2.0 * side, depth, side),
            (0.0, 0.0, side / 2.0 + n * (height - side) / (levels - 1)),
            colour,
            f"_board_{n + 1}",
        )
        for n in range(levels)
    ]
    sides = [
        Part("box", (side, depth, height), (sign * (length - side) / 2.0, 0.0, height / 2.0), colour, f"_side_{n}")
        for n, sign in ((1, -1.0), (2, 1.0))
    ]
    return Piece("shelf", (length, depth), (*boards, *sides))


def _sofa(dice: Dice) -> Piece:
    length, colour = dice.between(1.5, 2.2), dice.tinted(TEXTILE)
    seat = Part("box", (length, 0.85, 0.42), (0.0, 0.0, 0.21), colour, "_seat")
    back = Part("box", (length, 0.2, 0.4), (0.0, -0.325, 0.62), colour, "_back")
    return Piece("sofa", (length, 0.85), (seat, back))


def _drawers(dice: Dice) -> Piece:
    return box("drawers", (dice.between(0.5, 1.0), 0.5, dice.between(0.6, 0.9)), dice.tinted(STEEL))


def _cartons(dice: Dice) -> Piece:
    """Return a stack of two or three cartons that get smaller upwards."""
    length, depth, z, parts = dice.between(0.5, 0.7), dice.between(0.4, 0.6), 0.0, []
    for number in range(2 + dice.below(2)):
        shrink = 1.0 - 0.12 * number
        height = dice.between(0.25, 0.4)
        size = (length * shrink, depth * shrink, height)
        parts.append(Part("box", size, (0.0, 0.0, z + height / 2.0), dice.tinted(CARTON), f"_{number + 1}"))
        z += height
    return Piece("cartons", (length, depth), tuple(parts))


def _lamp(dice: Dice) -> Piece:
    base = Part("cylinder", (0.3, 0.3, 0.03), (0.0, 0.0, 0.015), STEEL, "_base")
    pole = Part("cylinder", (0.04, 0.04, 1.3), (0.0, 0.0, 0.68), STEEL, "_pole")
    shade = Part("sphere", (0.34, 0.34, 0.34), (0.0, 0.0, 1.5), LAMP, "_shade")
    return Piece("lamp", (0.34, 0.34), (base, pole, shade))


def _plant(dice: Dice) -> Piece:
    pot_height, size = 0.4, dice.between(0.5, 0.8)
    pot = Part("cylinder", (0.36, 0.36, pot_height), (0.0, 0.0, pot_height / 2.0), dice.tinted(CARTON), "_pot")
    leaves = Part("sphere", (size, size, size), (0.0, 0.0, pot_height + size / 2.0), dice.tinted(GREEN), "_leaves")
    return Piece("plant", (size, size), (pot, leaves))


_LINED: tuple[Callable[[Dice], Piece], ...] = (_cabinet, _sofa, _shelf, _drawers)
_FREE: tuple[Callable[[Dice], Piece], ...] = (_table, _plant, _cartons, _lamp)

GENERATOR = WorldGenerator(RoomSettings, draw)
