"""Worlds for tests."""

from __future__ import annotations

from rlstack.sim.world import World

VOID = World(
    name="void",
    seed=0,
    floor=False,
    obstacles=(),
    bounds_m=((-1e3, -1e3, -1e3), (1e3, 1e3, 1e3)),
    starts_m=((0.0, 0.0, 0.0),),
)
"""Nothing at all, no floor either."""
