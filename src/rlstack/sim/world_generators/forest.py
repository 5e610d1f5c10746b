"""A forest of upright poles, no two nearer than a stated gap, around a clearing at the origin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlstack.schema import in_order, value
from rlstack.sim.colours import BARK
from rlstack.sim.world_builder import Dice, WorldBuilder, box
from rlstack.sim.world_generators import WorldGenerator, WorldLayout

_TRIES = 12
"""Placement attempts per pole."""


@dataclass(frozen=True, kw_only=True)
class ForestSettings:
    """Settings of a forest; pairs are ranges of uniform draws."""

    size_m: tuple[float, float] = value((24.0, 24.0), unit="m", at_least=4.0, at_most=500.0)
    """x and y of the forest, around the origin."""
    count: int = value(70, at_least=0, at_most=5000)
    """Number of poles; fewer if there is no room."""
    radius_m: tuple[float, float] = value((0.06, 0.22), unit="m", at_least=0.005, at_most=5.0)
    height_m: tuple[float, float] = value((3.0, 6.0), unit="m", at_least=0.1, at_most=100.0)
    gap_m: float = value(1.3, unit="m", at_least=0.0)
    """Least gap between the surfaces of two poles."""
    clearing_m: float = value(1.5, unit="m", at_least=0.0)
    """Least distance from the origin to a pole's surface."""

    def __post_init__(self) -> None:
        in_order(self, "radius_m", "height_m")


def draw(settings: ForestSettings, rng: np.random.Generator) -> WorldLayout:
    """Return poles by dart throwing, which is Poisson-disc sampling with discs of the poles' own sizes."""
    dice, scene, (half_x, half_y) = Dice(rng), WorldBuilder(), (side / 2.0 for side in settings.size_m)
    cell = 2.0 * settings.radius_m[1] + settings.gap_m  # so what is too near is in the same cell or one beside it
    planted: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
    left = settings.count
    for u, v, w in rng.random((_TRIES * settings.count, 3)).tolist():
        if not left:
            break
        radius = settings.radius_m[0] + (settings.radius_m[1] - settings.radius_m[0]) * w
        x, y = (2.0 * u - 1.0) * (half_x - radius), (2.0 * v - 1.0) * (half_y - radius)
        if x * x + y * y < (settings.clearing_m + radius) ** 2:
            continue
        i, j = math.floor(x / cell), math.floor(y / cell)
        near = (p for a in (i - 1, i, i + 1) for b in (j - 1, j, j + 1) for p in planted.get((a, b), ()))
        if any((x - a) ** 2 + (y - b) ** 2 < (radius + r + settings.gap_m) ** 2 for a, b, r in near):
            continue
        planted.setdefault((i, j), []).append((x, y, radius))
        size = (2.0 * radius, 2.0 * radius, dice.between(*settings.height_m))
        scene.add(box("pole", size, dice.tinted(BARK, 0.07), shape="cylinder"), x, y)
        left -= 1
    bounds = ((-half_x, -half_y, 0.0), (half_x, half_y, settings.height_m[1]))
    return WorldLayout(tuple(scene.obstacles), bounds, ((-half_x, -half_y, half_x, half_y),))


GENERATOR = WorldGenerator(ForestSettings, draw)
