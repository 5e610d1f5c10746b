"""Rooms connected by doorways, with furniture, most of it against the walls."""

from __future__ import annotations

from rlstack.sim.maps.generators import MapGenerator
from rlstack.sim.maps.generators._pieces import against_walls, crate, desk, partition, pole
from rlstack.sim.maps.map_builder import MapBuilder, Rectangle

_LEAST_M = 1.5
"""Least side of a room, m, at scale 1."""


def draw(plan: MapBuilder) -> None:
    """Divide the floor repeatedly by walls with one or two doorways, then furnish the rooms."""
    rooms = [plan.inside]
    for _ in range(plan.count(2.0, 5.0)):
        rooms.sort(key=lambda room: (room[0] - room[2]) * (room[1] - room[3]))
        for room in reversed(rooms):
            halves = _divided(plan, room)
            if halves:
                rooms.remove(room)
                rooms += halves
                break
    pieces, poles = plan.count(4.0, 10.0), plan.count(1.0, 5.0)
    for number in range(pieces):
        room = rooms[number % len(rooms)]
        piece = desk(plan) if plan.dice.chance(0.2) else crate(plan)
        if plan.dice.chance(0.7):
            against_walls(plan, piece, room)
        else:
            plan.place(piece, within=room, square=plan.dice.chance(0.7))
    for _ in range(poles):
        plan.place(pole(plan), within=rooms[plan.dice.below(len(rooms))])


def _divided(plan: MapBuilder, room: Rectangle) -> list[Rectangle]:
    """Place a wall across a room; return its two parts, or none if the room is too small."""
    x0, y0, x1, y1 = room
    dice, thick = plan.dice, plan.wall_m
    across = x1 - x0 > y1 - y0
    span, (low, high) = ((y0, y1), (x0, x1)) if across else ((x0, x1), (y0, y1))
    margin = _LEAST_M * plan.scale + thick / 2.0
    width = plan.gap_m * dice.between(1.0, 1.4)
    if high - low < 2.0 * margin or span[1] - span[0] < width + 2.0 * thick or plan.boxes_left < 3:
        return []
    for _ in range(12):
        at = dice.between(low + margin, high - margin)
        wall = (at - thick / 2.0, y0, at + thick / 2.0, y1) if across else (x0, at - thick / 2.0, x1, at + thick / 2.0)
        if not plan.is_kept(*wall):
            break
    else:
        return []
    door = dice.between(span[0] + thick, span[1] - thick - width)
    doors = [(door, door + width)]
    if dice.chance(plan.between(0.5, 0.1)) and plan.boxes_left > 8:
        other = dice.between(span[0] + thick, span[1] - thick - width)
        if abs(other - door) > 2.0 * width:
            doors = sorted([*doors, (other, other + width)])
    partition(plan, across=across, at=at, span=span, doors=doors, thick=thick)
    low_end, high_start = at - thick / 2.0, at + thick / 2.0
    if across:
        return [(x0, y0, low_end, y1), (high_start, y0, x1, y1)]
    return [(x0, y0, x1, low_end), (x0, high_start, x1, y1)]


GENERATOR = MapGenerator(draw, prefer="far")
