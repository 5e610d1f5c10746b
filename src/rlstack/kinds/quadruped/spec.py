"""Quadrupeds: links, joints with limits and gains, feet, and the two postures that the guard moves them to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlstack.arrays import Array
from rlstack.robots.joints import DrivenJoint, RevoluteJoint, rest_positions
from rlstack.robots.links import Link, check_links
from rlstack.robots.spec import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class QuadrupedLimits:
    """Limits that the guard enforces; a recipe or an operator may only tighten them."""

    tilt_rad: float = value(unit="rad", above=0.0, at_most=1.5, text="Largest tilt")
    """Between the trunk's up axis and the world's."""


@dataclass(frozen=True, kw_only=True)
class Feet:
    """Spherical feet at the ends of the legs."""

    links: tuple[str, ...]
    """Links whose origins are the centres of the feet."""
    radius_m: float = value(unit="m", above=0.0)
    friction: float = value(unit="1", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Quadruped(RobotSpec):
    """Connected links; the first is ``base_link``, the trunk.

    The standing posture is the joints' ``rest_rad``.
    """

    kind: Literal["quadruped"]
    links: tuple[Link, ...]
    joints: tuple[RevoluteJoint, ...]
    feet: Feet
    body_friction: float = value(1.0, unit="1", above=0.0)
    """Friction coefficient of every link except the feet."""
    standing_height_m: float = value(unit="m", above=0.0)
    """Height of ``base_link`` above a level floor when it stands under its own weight."""
    crouching_rad: tuple[float, ...] = value(unit="rad")
    """Position of each joint in the posture in which the robot is switched off."""
    limits: QuadrupedLimits

    has_links = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_links(self.links, tuple(joint.name for joint in self.joints))
        names = [link.name for link in self.links]
        for name in self.feet.links:
            if name not in names:
                raise ValueError(f"feet.links: '{name}' is not one of the links: {', '.join(names)}.")
        if endless := [drive.name for drive in self.drives if drive.type == "continuous"]:
            raise ValueError(
                f"joints: {endless[0]} needs position_min_rad and position_max_rad: legs do not rotate endlessly."
            )
        if len(self.crouching_rad) != len(self.joints):
            raise ValueError(f"crouching_rad: {len(self.crouching_rad)} numbers for {len(self.joints)} joints.")
        for drive, angle in zip(self.drives, self.crouching_rad):
            if not drive.lower <= angle <= drive.upper:
                raise ValueError(
                    f"crouching_rad: {angle} of {drive.name} is not allowed: must be from {drive.lower} to"
                    f" {drive.upper} rad."
                )

    @property
    def drives(self) -> tuple[DrivenJoint, ...]:
        """Its joints."""
        return tuple(joint.driven for joint in self.joints)

    @property
    def link_friction(self) -> dict[str, float]:
        """Friction coefficient by link."""
        return {link.name: self.body_friction for link in self.links} | dict.fromkeys(
            self.feet.links, self.feet.friction
        )

    @property
    def standing(self) -> Array:
        """(joints,) rad: the standing posture."""
        return rest_positions(self.drives)

    @property
    def crouching(self) -> Array:
        """(joints,) rad: the posture in which it is switched off."""
        return np.array(self.crouching_rad)


SPEC = Quadruped
