"""Chambers in a row, connected by narrow doorways."""

from __future__ import annotations

from rlstack.sim.maps.generators import MapGenerator
from rlstack.sim.maps.generators._pieces import partition, scatter
from rlstack.sim.maps.map_builder import MapBuilder


def draw(plan: MapBuilder) -> None:
    """Place thick walls across the floor, each with a doorway far from the last one's; then clutter."""
    dice, scale = plan.dice, plan.scale
    across = dice.chance(0.5)
    x0, y0, x1, y1 = plan.inside
    (low, high), span = ((x0, x1), (y0, y1)) if across else ((y0, y1), (x0, x1))
    count = plan.count(2.0, 5.0)
    pitch = (high - low) / (count + 1)
    last = dice.between(*span)
    for number in range(count):
        thick = plan.wall_m * dice.between(1.0, 3.5)
        at = low + pitch * (number + 1 + dice.between(-0.15, 0.15))
        width = plan.gap_m * dice.between(1.0, 1.25)
        ends = span[0] + 0.1 * scale, span[1] - 0.1 * scale - width
        # of several candidates, the doorway farthest from the last one
        places = [dice.between(*ends) for _ in range(plan.count(1.0, 4.0))]
        door = max(places, key=lambda place: abs(place - last))
        partition(plan, across=across, at=at, span=span, doors=[(door, door + width)], thick=thick)
        last = door
    scatter(plan, boxes=plan.count(2.0, 8.0), circles=plan.count(1.0, 6.0))


GENERATOR = MapGenerator(draw, prefer="far")
