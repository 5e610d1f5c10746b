"""Obstacles of a world, fixed, pushed or sliding, the same for every engine."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.schema import value

TORSION_M, ROLLING_M = 0.005, 0.0001
"""MuJoCo's default torsional and rolling friction, for obstacles with their own friction."""

OBJECT = "object"
"""Name of the object that arms manipulate in a world."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Slide:
    """Rails that restrict an obstacle's motion, as for a drawer; it starts at one end of them.

    Raises:
        ValueError: The direction is zero.
    """

    direction: tuple[float, float, float]
    """Direction in the obstacle's own axes, of any length."""
    travel_m: float = value(unit="m", above=0.0)
    """Travel from the initial position."""
    friction_n: float = value(0.0, unit="N", at_least=0.0)
    """Dry friction of the rails: smaller forces do not move the obstacle, and it opposes motion."""
    damping_n_s_per_m: float = value(0.0, unit="N s/m", at_least=0.0)

    def __post_init__(self) -> None:
        if not any(self.direction):
            raise ValueError(f"direction: {list(self.direction)} is not allowed: must not be zero.")

    @property
    def axis(self) -> tuple[float, float, float]:
        """The direction as a unit vector."""
        length = math.hypot(*self.direction)
        x, y, z = (along / length for along in self.direction)
        return x, y, z


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """A box, an upright cylinder or a sphere, in the world's frame (ENU).

    Raises:
        ValueError: A cylinder's x and y extents or a sphere's three differ, the name is invalid, or two types of motion
            are combined.
    """

    name: str
    """Unique in its world; letters, digits and underscores."""
    shape: Literal["box", "cylinder", "sphere"]
    size_m: tuple[float, float, float] = value(unit="m", above=0.0)
    """Full extents along the obstacle's own x, y, z; for a cylinder diameter, diameter, height."""
    position_m: tuple[float, float, float] = value(unit="m")
    """Position of its centre."""
    yaw_rad: float = value(0.0, unit="rad")
    colour: tuple[float, float, float] = value((0.70, 0.70, 0.70), at_least=0.0, at_most=1.0)
    """Red, green, blue, 0 to 1."""
    mass_kg: float = value(0.0, unit="kg", at_least=0.0)
    """Mass; 0: immovable."""
    friction: float | None = value(None, at_least=0.0)
    """Friction coefficient against everything, for manipulated objects. None: that of floors and robots."""
    kinematic: bool = False
    """Whether the caller moves it, as for walking people: it is visible, but exchanges no forces."""
    slide: Slide | None = None
    """Rails: it moves along them only, and does not touch fixed objects."""
    part_of: str = ""
    """Name of the sliding obstacle that it is fixed to, whose mass includes it."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name: {self.name!r} is not allowed: must be a letter followed by letters, digits and underscores."
            )
        if self.kinematic and self.mass_kg:
            raise ValueError(f"mass_kg: {self.mass_kg:g} is not allowed with kinematic: leave one of the two out.")
        if self.slide is not None and not self.mass_kg:
            raise ValueError("mass_kg: 0 is not allowed with slide: give the mass of the sliding parts together.")
        if self.part_of and (self.mass_kg or self.kinematic or self.slide is not None):
            raise ValueError(
                f"part_of: '{self.part_of}' is not allowed with mass_kg, kinematic or slide: it moves as"
                f" '{self.part_of}' does, whose mass_kg counts for both."
            )
        x, y, z = self.size_m
        if self.shape == "cylinder" and x != y:
            raise ValueError(
                f"size_m: {list(self.size_m)} is not allowed: a cylinder's are diameter, diameter, height."
            )
        if self.shape == "sphere" and not x == y == z:
            raise ValueError(f"size_m: {list(self.size_m)} is not allowed: a sphere's three must be equal.")

    @property
    def is_handled(self) -> bool:
        """Whether it is the movable object called :data:`OBJECT`, whose pose arms observe."""
        return self.name == OBJECT and self.mass_kg > 0.0

    @property
    def can_move(self) -> bool:
        """Whether it is movable."""
        return self.mass_kg > 0.0 or bool(self.part_of)

    @property
    def lowest_m(self) -> float:
        """Height of its lowest point, m."""
        return self.position_m[2] - self.size_m[2] / 2.0

    @property
    def highest_m(self) -> float:
        """Height of its highest point, m."""
        return self.position_m[2] + self.size_m[2] / 2.0

    @property
    def reach_m(self) -> tuple[float, float]:
        """Half extents of its bounding box along the world's x and y, m."""
        x, y, _ = self.size_m
        if self.shape != "box":
            return x / 2.0, y / 2.0
        c, s = abs(math.cos(self.yaw_rad)), abs(math.sin(self.yaw_rad))
        return (c * x + s * y) / 2.0, (s * x + c * y) / 2.0


def parts_of(obstacles: Sequence[Obstacle], where: str) -> dict[str, tuple[Obstacle, ...]]:
    """Return, by name of each sliding obstacle of a world, called ``where`` in errors, the parts fixed to it.

    Raises:
        UserError: An obstacle is part of one that does not exist or does not slide.
    """
    found: dict[str, tuple[Obstacle, ...]] = {o.name: () for o in obstacles if o.slide is not None}
    for obstacle in obstacles:
        if not obstacle.part_of:
            continue
        if obstacle.part_of not in found:
            sliding = ", ".join(found) or "none"
            raise UserError(
                f"{where}: '{obstacle.name}' is part_of '{obstacle.part_of}', which is not a sliding obstacle"
                f" (sliding ones: {sliding}): give it a slide, or leave part_of out."
            )
        found[obstacle.part_of] = (*found[obstacle.part_of], obstacle)
    return found


def seen_from(body: Obstacle, part: Obstacle) -> tuple[Array, float]:
    """Return the pose of a part in the frame of its sliding obstacle: (3,) m and a yaw, rad."""
    away = np.array(part.position_m) - np.array(body.position_m)
    return frames.rotate_inverse(frames.from_yaw(body.yaw_rad), away), part.yaw_rad - body.yaw_rad


def slid(body: Obstacle, travelled_m: float) -> tuple[Array, Array]:
    """Return the world pose of an obstacle after a travel: position (3,) m and orientation (4,) xyzw."""
    assert body.slide is not None
    turned = frames.from_yaw(body.yaw_rad)
    return np.array(body.position_m) + frames.rotate(turned, travelled_m * np.array(body.slide.axis)), turned
