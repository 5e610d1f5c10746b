"""Visual domain randomization: light, colours, textures and camera poses, drawn for each episode."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots.mjcf import import_mujoco
from rlstack.schema import in_order, value

Range = tuple[float, float]

_PATTERNS = 10
TABLES = 2 * _PATTERNS
"""Number of materials of the table or floor, the second half of which are grey; see :func:`add_tables`."""


@dataclass(frozen=True, kw_only=True)
class AppearanceRange:
    """Ranges that appearances are drawn from.

    The ranges are our choice, after Tobin et al., "Domain Randomization for Transferring Deep Neural Networks from
    Simulation to the Real World" (arXiv 1703.06907), except for the box's colour, which identifies the box among other
    objects.
    """

    sun: Range = value((0.25, 0.75), at_least=0.0, at_most=1.0)
    """Brightness of the directional light."""
    ambient: Range = value((0.2, 0.5), at_least=0.0, at_most=1.0)
    """Brightness of the ambient light."""
    sun_tilt: float = value(0.7, at_least=0.0)
    """Greatest horizontal component of the light's direction, relative to the vertical one."""
    shadows: float = value(0.15, at_least=0.0, at_most=1.0)
    """Share of episodes with shadows, which triple the rendering time."""
    warmth: float = value(0.1, at_least=0.0, at_most=1.0)
    """Greatest relative deviation of the light's red, green and blue from white."""
    object_colour: float = value(0.12, at_least=0.0, at_most=1.0)
    """Greatest deviation of the objects' red, green and blue from the scene's."""
    arm: Range = value((0.35, 0.95), at_least=0.0, at_most=1.0)
    """Grey level of the arm, or of a room's walls."""
    table: Range = value((0.45, 1.0), at_least=0.0, at_most=1.0)
    """Brightness factor of the material of the table or floor."""
    table_colour: float = value(0.12, at_least=0.0, at_most=1.0)
    """Greatest relative deviation of the table's red, green and blue from that brightness."""
    grey: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of episodes whose table or floor has no colour. Else a network may tell a grey arm from it by colour alone,
    which fails on a grey table, in shadow most of all."""
    camera_m: float = value(0.005, unit="m", at_least=0.0)
    """Standard deviation of a camera's position along each axis."""
    camera_rad: float = value(0.01, unit="rad", at_least=0.0)
    """Standard deviation of its roll, pitch and yaw."""
    view: float = value(0.02, at_least=0.0, at_most=0.5)
    """Greatest relative deviation of the tangent of half a camera's field of view."""

    def __post_init__(self) -> None:
        in_order(self)


@dataclass(frozen=True)
class Appearance:
    """Appearance of N worlds with C cameras.

    Args:
        sun: (N, 3) colour of the directional light.
        ambient: (N, 3) colour of the ambient light.
        direction: (N, 3) direction of the light.
        shadows: (N,) bool.
        thing: (N, 3) offset of the object's colour.
        arm: (N,) grey level of the arm or the walls.
        table: (N, 3) factor of the table's material.
        material: (N,) index of the table's material.
        shift: (N, C, 3) offset of the cameras' positions, m, in their links' frames.
        turn: (N, C, 3) offset of the cameras' roll, pitch, yaw, rad.
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
        """Copy the n appearances of ``other`` to the worlds at ``index``."""
        for one in fields(self):
            getattr(self, one.name)[index] = getattr(other, one.name)


def draw_appearance(ranges: AppearanceRange, cameras: int, rng: np.random.Generator, count: int) -> Appearance:
    """Draw the appearance of ``count`` worlds."""

    def grey(range_: Range, spread: float) -> Array:
        return rng.uniform(*range_, (count, 1)) * (1.0 + spread * rng.uniform(-1.0, 1.0, (count, 3)))

    tilt = ranges.sun_tilt
    sideways = rng.uniform(-tilt, tilt, (count, 2))
    drawn = Appearance(
        sun=grey(ranges.sun, ranges.warmth),
        ambient=grey(ranges.ambient, ranges.warmth),
        direction=np.concatenate([sideways, -np.ones((count, 1))], axis=1),
        shadows=rng.random(count) < ranges.shadows,
        thing=ranges.object_colour * rng.uniform(-1.0, 1.0, (count, 3)),
        arm=rng.uniform(*ranges.arm, count),
        table=grey(ranges.table, ranges.table_colour),
        material=rng.integers(0, _PATTERNS, count),
        shift=ranges.camera_m * rng.standard_normal((count, cameras, 3)),
        turn=ranges.camera_rad * rng.standard_normal((count, cameras, 3)),
        view=1.0 + ranges.view * rng.uniform(-1.0, 1.0, (count, cameras)),
    )
    if ranges.grey > 0.0:
        plain = rng.random(count) < ranges.grey
        drawn.material[plain] += _PATTERNS
        drawn.table[plain] = drawn.table[plain].mean(axis=1, keepdims=True)
    return drawn


def add_tables(spec: Any) -> None:
    """Add the possible materials of a table or floor to a ``mujoco.MjSpec``.

    They are plain, squares, stripes of brightness and speckles, large and small; in colours, and then the same in grey.
    """
    mujoco = import_mujoco()
    kinds, marks = mujoco.mjtBuiltin, mujoco.mjtMark
    rng = np.random.default_rng(0)
    patterns = []
    for k in range(_PATTERNS):
        bright = rng.uniform(0.55, 1.0, 3) if k else np.ones(3)
        other, marked = np.clip(bright * rng.uniform(0.7, 1.1), 0.0, 1.0), rng.uniform(0.3, 1.0, 3)
        repeat = float(math.exp(rng.uniform(math.log(0.5), math.log(8.0))))
        patterns.append(((bright, other, marked), repeat))
    for k in range(TABLES):
        pattern, coloured = k % _PATTERNS, k < _PATTERNS
        colours, repeat = patterns[pattern]
        bright, other, marked = ((c if coloured else np.full(3, c.mean())).tolist() for c in colours)
        kind = (kinds.mjBUILTIN_FLAT, kinds.mjBUILTIN_CHECKER, kinds.mjBUILTIN_GRADIENT)[pattern % 3]
        spec.add_texture(
            name=f"table {k}",
            type=mujoco.mjtTexture.mjTEXTURE_2D,
            builtin=kind,
            rgb1=bright,
            rgb2=other,
            mark=marks.mjMARK_RANDOM if pattern % 2 else marks.mjMARK_NONE,
            markrgb=marked,
            random=0.02,
            width=128,
            height=128,
        )
        material = spec.add_material(name=f"table {k}", texrepeat=[repeat, repeat], texuniform=True, reflectance=0.0)
        textures = list(material.textures)
        textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = f"table {k}"
        material.textures = textures
