"""An empty floor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.schema import value
from rlstack.sim.world_generators import WorldGenerator, WorldLayout


@dataclass(frozen=True, kw_only=True)
class EmptySettings:
    """Settings of an empty world."""

    size_m: tuple[float, float, float] = value((10.0, 10.0, 5.0), unit="m", at_least=1.0, at_most=1000.0)
    """x, y and height of the bounds, around the origin."""


def draw(settings: EmptySettings, rng: np.random.Generator) -> WorldLayout:
    """Return a layout without obstacles."""
    x, y, z = settings.size_m
    bounds = ((-x / 2.0, -y / 2.0, 0.0), (x / 2.0, y / 2.0, z))
    return WorldLayout((), bounds, ((-x / 2.0, -y / 2.0, x / 2.0, y / 2.0),))


GENERATOR = WorldGenerator(EmptySettings, draw)
