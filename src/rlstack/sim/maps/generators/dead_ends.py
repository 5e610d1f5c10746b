"""Dead ends: U, J and hook shapes and long bars between a robot and its goal."""

from __future__ import annotations

from rlstack.sim.maps.generators import MapGenerator
from rlstack.sim.maps.generators._pieces import scatter
from rlstack.sim.maps.map_builder import MapBuilder, Piece


def draw(plan: MapBuilder) -> None:
    """Place bays, larger and deeper in more difficult maps, then bars and some clutter."""
    for _ in range(plan.count(2.0, 5.0)):
        plan.place(_bay(plan))
    for _ in range(plan.count(1.0, 3.0)):
        plan.place(_bar(plan))
    scatter(plan, boxes=plan.count(1.0, 3.0), circles=plan.count(1.0, 4.0))


def _bay(plan: MapBuilder) -> Piece:
    """Return a back and two arms of possibly different lengths, sometimes with a lip that half closes the bay."""
    dice, scale, t = plan.dice, plan.scale, plan.wall_m / 2.0
    # inside, at least as wide as a passage
    half = max(plan.gap_m / 2.0, scale * dice.between(0.45, plan.between(0.7, 1.05))) + 2.0 * t
    deep = scale * dice.between(0.35, plan.between(0.5, 0.85))
    short = deep * (dice.between(0.4, 1.0) if dice.chance(0.5) else 1.0)
    side = 1.0 if dice.chance(0.5) else -1.0
    boxes = [
        (0.0, -deep - t, half, t),
        (side * (half - t), 0.0, t, deep),
        (-side * (half - t), short - deep, t, short),
    ]
    lip = 2.0 * half - 4.0 * t - plan.gap_m
    if short == deep and lip > 4.0 * t and dice.chance(plan.difficulty):
        reach = dice.between(2.0 * t, lip / 2.0)
        boxes.append((side * (half - reach), deep + t, reach, t))
    return Piece(boxes=tuple(boxes))


def _bar(plan: MapBuilder) -> Piece:
    return Piece(boxes=((0.0, 0.0, plan.scale * plan.dice.between(0.6, 1.3), plan.wall_m / 2.0),))


GENERATOR = MapGenerator(draw, prefer="detour")
