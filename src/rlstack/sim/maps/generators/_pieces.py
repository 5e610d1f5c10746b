"""Building blocks shared by several kinds of map."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlstack.sim.maps.map_builder import MapBuilder, Piece, Rectangle


def scatter(plan: MapBuilder, boxes: int, circles: int, *, square: bool = False) -> None:
    """Place at most so many boxes (an L counts as two) and circles anywhere, in random order.

    If ``square``, boxes are parallel to the outer walls.
    """
    dice = plan.dice
    boxes, circles = min(boxes, plan.boxes_left), min(circles, plan.circles_left)
    while boxes + circles > 0:
        if dice.below(boxes + circles) >= boxes:
            circles -= 1
            plan.place(pole(plan))
            continue
        piece = desk(plan) if boxes > 1 and dice.chance(0.25) else crate(plan)
        boxes -= len(piece.boxes)
        plan.place(piece, square=square)


def pole(plan: MapBuilder) -> Piece:
    """Return one circle, between a table leg and a barrel in size."""
    return Piece(circles=((0.0, 0.0, plan.scale * plan.dice.between(0.06, 0.28)),))


def crate(plan: MapBuilder) -> Piece:
    """Return one box."""
    scale, dice = plan.scale, plan.dice
    return Piece(boxes=((0.0, 0.0, scale * dice.between(0.15, 0.6), scale * dice.between(0.08, 0.35)),))


def desk(plan: MapBuilder) -> Piece:
    """Return two boxes that form an L."""
    scale, dice = plan.scale, plan.dice
    half, wing = scale * dice.between(0.35, 0.6), scale * dice.between(0.3, 0.5)
    deep = scale * dice.between(0.1, 0.2)
    side = 1.0 if dice.chance(0.5) else -1.0
    return Piece(boxes=((0.0, -wing, half, deep), (side * (half - deep), deep, deep, wing)))


def against_walls(plan: MapBuilder, piece: Piece, room: Rectangle) -> bool:
    """Place a piece with its back to one of a room's walls, sometimes in a corner; return whether there was room."""
    dice, (half_x, half_y) = plan.dice, piece.half_m
    x0, y0, x1, y1 = room
    spots = []
    for _ in range(12):
        side = dice.below(4)
        across = side % 2 == 1
        low, high, back = (y0, y1, (x0, x1)[side // 2]) if across else (x0, x1, (y0, y1)[side // 2])
        if high - low < 2.0 * half_x:
            continue
        along = (low + half_x, high - half_x)[dice.below(2)] if dice.chance(0.4) else dice.between(low, high)
        off = back + (half_y if side < 2 else -half_y)
        spots.append((off, along, math.pi / 2.0) if across else (along, off, 0.0))
    return bool(spots) and plan.place(piece, spots=spots)


def partition(
    plan: MapBuilder,
    *,
    across: bool,
    at: float,
    span: tuple[float, float],
    doors: Sequence[tuple[float, float]],
    thick: float,
) -> None:
    """Add a wall with doorways, and keep the floor in front of them free.

    Args:
        plan: The plan to draw on; it needs one box more than there are doors.
        across: Whether the wall runs along y.
        at: x of the centre line of a wall along y, otherwise its y, m.
        span: Begin and end of the wall, m.
        doors: Begin and end of each doorway, m, in ascending order.
        thick: Thickness, m.
    """

    def rectangle(low: float, high: float, half: float) -> Rectangle:
        return (at - half, low, at + half, high) if across else (low, at - half, high, at + half)

    begin = span[0]
    for low, high in (*doors, (span[1], span[1])):
        if low > begin:
            plan.wall(*rectangle(begin, low, thick / 2.0))
        begin = high
    for low, high in doors:
        plan.keep_free(*rectangle(low, high, thick / 2.0 + plan.gap_m))
