"""A forest of upright poles, no two nearer than a stated gap, around a clearing at the origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.schema import value
from rlstack.sim.worlds import Generator, Layout
from rlstack.sim.worlds._pieces import BARK, Dice, Scene, box


@dataclass(frozen=True, kw_only=True)
class ForestSettings:
    """What a forest may set; pairs are ranges that are drawn from uniformly."""

    size_m: tuple[float, float] = value((24.0, 24.0), unit="m", at_least=4.0, at_most=500.0)
    """x and y of the forest, around the origin."""
    count: int = value(70, at_least=0, at_most=5000)
    """Poles, or fewer when no more find room."""
    radius_m: tuple[float, float] = value((0.06, 0.22), unit="m", at_least=0.005, at_most=5.0)
    height_m: tuple[float, float] = value((3.0, 6.0), unit="m", at_least=0.1, at_most=100.0)
    gap_m: float = value(1.3, unit="m", at_least=0.0)
    """Between the surfaces of two poles, at least."""
    clearing_m: float = value(1.5, unit="m", at_least=0.0)
    """From the origin to the nearest pole's surface, at least."""

    def __post_init__(self) -> None:
        for name in ("radius_m", "height_m"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name}: [{low}, {high}] is not allowed: the first must not exceed the second.")


def draw(settings: ForestSettings, rng: np.random.Generator) -> Layout:
    """Return poles by dart throwing, which is Poisson-disc sampling with discs of the poles' own sizes."""
    dice, scene = Dice(rng), Scene()
    half = np.array(settings.size_m) / 2.0
    centres, radii = np.empty((settings.count, 2)), np.empty(settings.count)
    planted = 0
    for x, y, r in rng.random((12 * settings.count, 3)):
        if planted == settings.count:
            break
        radius = settings.radius_m[0] + (settings.radius_m[1] - settings.radius_m[0]) * r
        at = (2.0 * np.array([x, y]) - 1.0) * (half - radius)
        if at @ at < (settings.clearing_m + radius) ** 2:
            continue
        away = np.sqrt(((centres[:planted] - at) ** 2).sum(axis=1)) - radii[:planted] - radius
        if planted and away.min() < settings.gap_m:
            continue
        centres[planted], radii[planted] = at, radius
        planted += 1
    for (x, y), radius in zip(centres[:planted], radii[:planted]):
        size = (2.0 * radius, 2.0 * radius, dice.between(*settings.height_m))
        scene.add(box("pole", size, dice.tinted(BARK, 0.07), shape="cylinder"), x, y)
    x, y = (float(h) for h in half)
    top = settings.height_m[1]
    return Layout(tuple(scene.obstacles), ((-x, -y, 0.0), (x, y, top)), ((-x, -y, x, y),))


GENERATOR = Generator(ForestSettings, draw)
