"""Visual randomization of arms' worlds: light, colours, textures and camera poses, drawn for each episode."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.schema import in_order, value

Range = tuple[float, float]

TABLES = 10
"""Materials that a table may have; see :mod:`rlstack.sim.arms.camera_renderer`."""


@dataclass(frozen=True, kw_only=True)
class AppearanceRange:
    """Ranges that appearances are drawn from.

    The ranges are our choice, after Tobin et al., "Domain Randomization for Transferring Deep Neural Networks from
    Simulation to the Real World" (arXiv 1703.06907), but for the box's colour, by which it is told from what else lies
    about.
    """

    sun: Range = value((0.25, 0.75), at_least=0.0, at_most=1.0)
    """Of the light that has a direction."""
    ambient: Range = value((0.2, 0.5), at_least=0.0, at_most=1.0)
    """Of the light that has none."""
    sun_tilt: float = value(0.7, at_least=0.0)
    """Up to this much sideways, each way, for one down."""
    shadows: float = value(0.15, at_least=0.0, at_most=1.0)
    """Share of episodes with shadows: a picture with them takes three times as long."""
    warmth: float = value(0.1, at_least=0.0, at_most=1.0)
    """How far the light's red, green and blue differ from white, as a share, to either side."""
    object_colour: float = value(0.12, at_least=0.0, at_most=1.0)
    """How far red, green and blue of what is handled are from the scene's, to either side."""
    arm: Range = value((0.35, 0.95), at_least=0.0, at_most=1.0)
    """Grey of the arm."""
    table: Range = value((0.45, 1.0), at_least=0.0, at_most=1.0)
    """Brightness that the table's material is multiplied by."""
    table_colour: float = value(0.12, at_least=0.0, at_most=1.0)
    """How far its red, green and blue are from that, as a share."""
    camera_m: float = value(0.005, unit="m", at_least=0.0)
    """Standard deviation of a camera's place along each axis."""
    camera_rad: float = value(0.01, unit="rad", at_least=0.0)
    """Standard deviation of its roll, pitch and yaw."""
    view: float = value(0.02, at_least=0.0, at_most=0.5)
    """How far the tangent of half its field of view is off, as a share, to either side."""

    def __post_init__(self) -> None:
        in_order(self)


@dataclass(frozen=True)
class Appearance:
    """Appearances of N worlds to C cameras.

    Args:
        sun: (N, 3) red, green, blue.
        ambient: (N, 3).
        direction: (N, 3) in which the sun shines.
        shadows: (N,) bool.
        thing: (N, 3) added to the colour of what is handled.
        arm: (N,) grey.
        table: (N, 3) that the material is multiplied by.
        material: (N,) which.
        shift: (N, C, 3) m from the cameras' places, in their links' frames.
        turn: (N, C, 3) rad, roll, pitch, yaw from their directions.
        view: (N, C) factor of the tangent of half the field of view.
    """

    sun: Array
    ambient: Array
    direction: Array
    shadows: NDArray[np.bool_]
    thing: Array
    arm: Array
    table: Array
    material: NDArray[np.intp]
    shift: Array
    turn: Array
    view: Array

    def put(self, index: NDArray[np.intp], other: Appearance) -> None:
        """Take another's looks (n) for the worlds at ``index``."""
        for one in fields(self):
            getattr(self, one.name)[index] = getattr(other, one.name)


def draw_appearance(ranges: AppearanceRange, cameras: int, rng: np.random.Generator, count: int) -> Appearance:
    """Return looks of ``count`` worlds."""

    def grey(range_: Range, spread: float) -> Array:
        return rng.uniform(*range_, (count, 1)) * (1.0 + spread * rng.uniform(-1.0, 1.0, (count, 3)))

    tilt = ranges.sun_tilt
    sideways = rng.uniform(-tilt, tilt, (count, 2))
    return Appearance(
        sun=grey(ranges.sun, ranges.warmth),
        ambient=grey(ranges.ambient, ranges.warmth),
        direction=np.concatenate([sideways, -np.ones((count, 1))], axis=1),
        shadows=rng.random(count) < ranges.shadows,
        thing=ranges.object_colour * rng.uniform(-1.0, 1.0, (count, 3)),
        arm=rng.uniform(*ranges.arm, count),
        table=grey(ranges.table, ranges.table_colour),
        material=rng.integers(0, TABLES, count),
        shift=ranges.camera_m * rng.standard_normal((count, cameras, 3)),
        turn=ranges.camera_rad * rng.standard_normal((count, cameras, 3)),
        view=1.0 + ranges.view * rng.uniform(-1.0, 1.0, (count, cameras)),
    )
