"""Clutter: crates, L-shaped desks and poles on an open floor, at any heading."""

from __future__ import annotations

from rlstack.sim.maps.generators import MapGenerator
from rlstack.sim.maps.generators._pieces import scatter
from rlstack.sim.maps.map_builder import MapBuilder


def draw(plan: MapBuilder) -> None:
    """Place boxes, some of them in L-shaped pairs, and poles on the floor; more in more difficult maps."""
    scatter(plan, boxes=plan.count(8.0, 20.0), circles=plan.count(2.0, 8.0))


GENERATOR = MapGenerator(draw)
