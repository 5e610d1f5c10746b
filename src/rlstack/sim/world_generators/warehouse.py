"""A warehouse: rows of loaded racks with aisles, a cross aisle at the origin, pillars, and pallets on the floor.

Along x: loading zone, racks, cross aisle, racks, end aisle. Rack rows run along x, with an aisle on both sides of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from rlstack.schema import value
from rlstack.sim.colours import CARTON, CONCRETE, ORANGE, STEEL, TEXTILE, WOOD, Colour
from rlstack.sim.free_space import Rectangle
from rlstack.sim.world_builder import Dice, Part, Piece, WorldBuilder, around, box, walls_around
from rlstack.sim.world_generators import WorldGenerator, WorldLayout

_POST_M, _BOARD_M, _RACK_GAP_M = 0.1, 0.08, 0.05
_PALLET_M = (1.2, 0.8, 0.144)
"""The EUR 1 pallet of EN 13698-1."""
_GOODS: tuple[Colour, ...] = (CARTON, CARTON, TEXTILE, CONCRETE)


@dataclass(frozen=True, kw_only=True)
class WarehouseSettings:
    """Settings of a warehouse."""

    size_m: tuple[float, float, float] = value((30.0, 20.0, 6.0), unit="m", at_least=2.0, at_most=500.0)
    """x and y inside the walls, and their height."""
    wall_thickness_m: float = value(0.2, unit="m", at_least=0.01, at_most=2.0)
    rack_depth_m: float = value(1.1, unit="m", at_least=0.3, at_most=5.0)
    bay_m: float = value(2.4, unit="m", at_least=0.6, at_most=10.0)
    """Bay length of a rack, from post to post."""
    level_m: float = value(1.5, unit="m", at_least=0.5, at_most=10.0)
    """Vertical distance between boards."""
    levels: int = value(2, at_least=1, at_most=20)
    """Boards above the floor; goods stand on the floor and on each board."""
    aisle_m: float = value(2.6, unit="m", at_least=0.5)
    """Width of the aisles between racks, at least."""
    cross_aisle_m: float = value(4.0, unit="m", at_least=0.5)
    loading_zone_m: float = value(6.0, unit="m", at_least=0.0)
    """Length along x of the floor at the low end that has no racks; the high end has half of it."""
    fill: float = value(0.7, at_least=0.0, at_most=1.0)
    """Share of the places in the racks that hold goods."""
    missing: float = value(0.08, at_least=0.0, at_most=1.0)
    """Share of missing bays, which leave passages."""
    pallets: int = value(8, at_least=0, at_most=500)
    """Number of pallets on the loading zone's floor; fewer if there is no room."""
    aisle_pallets: int = value(4, at_least=0, at_most=500)
    """Beside racks, in the aisles."""
    pillars: int = value(6, at_least=0, at_most=500)
    """In the loading zone, the cross aisle and the end aisle."""
    passage_m: float = value(1.2, unit="m", above=0.0)
    """Gap between pallets or pillars and everything else."""

    def __post_init__(self) -> None:
        depth = self.rack_depth_m + 2.0 * self.aisle_m
        if depth > self.size_m[1]:
            raise ValueError(f"aisle_m: {self.aisle_m} is not allowed: a rack between two aisles is {depth:g} m deep.")
        if self.levels * self.level_m + 0.3 > self.size_m[2]:
            raise ValueError(
                f"levels: {self.levels} is not allowed: racks of {self.levels * self.level_m:g} m and 0.3 m more must"
                f" fit under {self.size_m[2]:g} m."
            )


def draw(settings: WarehouseSettings, rng: np.random.Generator) -> WorldLayout:
    """Return walls, racks with their goods, pallets and pillars that leave the aisles passable."""
    dice, scene = Dice(rng), WorldBuilder()
    (length, width, height), thickness = settings.size_m, settings.wall_thickness_m
    x, y = length / 2.0, width / 2.0
    inside: tuple[Rectangle, ...] = ((-x, -y, x, y),)
    walls_around(inside, thickness, height, scene)
    scene.keep_free(0.0, 0.0, 1.0, 1.0)
    rows, aisle = _rows(settings)
    half_cross = settings.cross_aisle_m / 2.0
    built: list[tuple[float, float]] = []
    for low, high in ((-x + settings.loading_zone_m, -half_cross), (half_cross, x - settings.loading_zone_m / 2.0)):
        count = int((high - low - _POST_M) / settings.bay_m + 1e-9)
        if count < 1:
            continue
        # flush with the cross aisle; the remainder widens the zone behind
        first = high - _POST_M / 2.0 - count * settings.bay_m if high < 0.0 else low + _POST_M / 2.0
        for row in rows:
            bays = [not dice.chance(settings.missing) for _ in range(count)]
            built += _rack(settings, dice, scene, first, row, bays)
    zones = (
        (-x, -y, -x + settings.loading_zone_m, y),
        (-half_cross, -y, half_cross, y),
        (x - settings.loading_zone_m / 2.0, -y, x, y),
    )
    for number in range(settings.pillars):
        zone = zones[number % 3]
        pillar = box("pillar", (0.4, 0.4, height), CONCRETE)
        scene.place(pillar, partial(_in_zone, dice, zone, 0.3, False), settings.passage_m)
    for _ in range(settings.pallets):
        scene.place(_pallet(dice), partial(_in_zone, dice, zones[0], 0.7, True), settings.passage_m)
    if built and aisle - _PALLET_M[1] - _RACK_GAP_M >= settings.passage_m:
        for _ in range(settings.aisle_pallets):
            scene.place(_pallet(dice), partial(_beside_rack, settings, dice, built), 0.9 * _RACK_GAP_M)
    return WorldLayout(tuple(scene.obstacles), around(inside, thickness, height), inside)


def _rows(settings: WarehouseSettings) -> tuple[list[float], float]:
    """Return the y of the rack rows' centre lines and the width of the aisles, which share the remaining space."""
    width, depth = settings.size_m[1], settings.rack_depth_m
    count = max(int((width - settings.aisle_m) / (depth + settings.aisle_m) + 1e-9), 1)
    aisle = (width - count * depth) / (count + 1)
    return [-width / 2.0 + aisle + depth / 2.0 + n * (depth + aisle) for n in range(count)], aisle


def _rack(
    settings: WarehouseSettings, dice: Dice, scene: WorldBuilder, first: float, row: float, bays: list[bool]
) -> list[tuple[float, float]]:
    """Add the bays of a row that are present; return their centres x, y.

    ``first`` is the x of the row's first posts, ``row`` the y of its centre line.
    """
    built = []
    top = settings.levels * settings.level_m + 0.3
    side = (settings.rack_depth_m - _POST_M) / 2.0
    post = Part("box", (_POST_M, _POST_M, top), (0.0, 0.0, top / 2.0), STEEL)
    for line in range(len(bays) + 1):
        if any(bays[max(line - 1, 0) : line + 1]):
            for sign in (-1.0, 1.0):
                piece = Piece("rack_post", (_POST_M, _POST_M), (post,))
                scene.add(piece, first + line * settings.bay_m, row + sign * side)
    clear = settings.bay_m - _POST_M
    for number, there in enumerate(bays):
        if not there:
            continue
        middle = first + (number + 0.5) * settings.bay_m
        built.append((middle, row))
        for level in range(settings.levels + 1):
            stand = level * settings.level_m
            if level:
                size = (clear, settings.rack_depth_m, _BOARD_M)
                scene.add(box("rack_board", size, ORANGE), middle, row, z=stand - _BOARD_M)
            room = settings.level_m - _BOARD_M if level < settings.levels else min(1.2, settings.size_m[2] - stand)
            for slot in (-0.25, 0.25):
                if dice.chance(settings.fill):
                    goods = _goods(settings, dice, clear / 2.0, room)
                    shift = (clear / 2.0 - 0.02 - goods.size_m[0]) / 2.0  # off the centre of its slot
                    scene.add(goods, middle + slot * clear + dice.between(-shift, shift), row, z=stand)
    return built


def _goods(settings: WarehouseSettings, dice: Dice, slot: float, room: float) -> Piece:
    """Return goods for a slot ``slot`` m wide and ``room`` m high."""
    size = (
        slot * dice.between(0.65, 0.92),
        settings.rack_depth_m * dice.between(0.7, 0.95),
        room * dice.between(0.35, 0.85),
    )
    return box("goods", size, dice.tinted(_GOODS[dice.below(len(_GOODS))]))


def _pallet(dice: Dice) -> Piece:
    """Return a pallet, most often with goods on it."""
    parts = [Part("box", _PALLET_M, (0.0, 0.0, _PALLET_M[2] / 2.0), dice.tinted(WOOD))]
    if dice.chance(0.8):
        height = dice.between(0.3, 1.4)
        size = (_PALLET_M[0] * dice.between(0.75, 0.98), _PALLET_M[1] * dice.between(0.75, 0.98), height)
        colour = dice.tinted(_GOODS[dice.below(len(_GOODS))])
        parts.append(Part("box", size, (0.0, 0.0, _PALLET_M[2] + height / 2.0), colour, "_goods"))
    return Piece("pallet", _PALLET_M[:2], tuple(parts))


def _in_zone(dice: Dice, zone: Rectangle, margin: float, turned: bool) -> tuple[float, float, float]:
    """Return a pose in a zone, aligned with x or, if ``turned``, within 0.2 rad of an axis."""
    x0, y0, x1, y1 = zone
    yaw = dice.below(2) * math.pi / 2.0 + dice.between(-0.2, 0.2) if turned else 0.0
    return dice.between(x0 + margin, x1 - margin), dice.between(y0 + margin, y1 - margin), yaw


def _beside_rack(
    settings: WarehouseSettings, dice: Dice, built: list[tuple[float, float]]
) -> tuple[float, float, float]:
    """Return a pose beside a rack, on its +y side only, so that no aisle is narrowed from both sides."""
    x, row = built[dice.below(len(built))]
    return x, row + settings.rack_depth_m / 2.0 + _RACK_GAP_M + _PALLET_M[1] / 2.0, 0.0


GENERATOR = WorldGenerator(WarehouseSettings, draw)
