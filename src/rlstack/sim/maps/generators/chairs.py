"""Chairs: clutter with four-legged chairs, whose legs are 2 to 3 cm thick; a base may drive between them."""

from __future__ import annotations

from rlstack.sim.maps.generators import MapGenerator
from rlstack.sim.maps.generators._pieces import scatter
from rlstack.sim.maps.map_builder import MapBuilder, Piece

LEGS = 4
MOST_LEGS = 16
"""Greatest number of legs in a map."""

THICK_M = (0.02, 0.03)
"""Diameters of legs, m; they do not grow with the robot."""
WIDE_M = (0.36, 0.46)
"""Distance between neighbouring legs, for a robot of 0.1 to 0.2 m radius: seats of kitchen and office chairs."""


def draw(plan: MapBuilder) -> None:
    """Place chairs first, then crates and desks; more in more difficult maps."""
    dice = plan.dice
    for _ in range(min(plan.count(2.0, 4.0), plan.circles_left // LEGS)):
        half, radius = 0.5 * plan.scale * dice.between(*WIDE_M), 0.5 * dice.between(*THICK_M)
        corners = [(x * half, y * half) for x in (-1.0, 1.0) for y in (-1.0, 1.0)]
        plan.place(Piece(circles=tuple((x, y, radius) for x, y in corners)))
    scatter(plan, boxes=plan.count(6.0, 14.0), circles=0)


GENERATOR = MapGenerator(draw, circles=MOST_LEGS)
