"""Joints, as robot files describe them and as engines actuate them, for every kind of robot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from rlstack.arrays import Array
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class DrivenJoint:
    """One joint with its limits and the gains of its drive, in rad and N m, or for ``prismatic`` in m and N.

    A drive's effort is ``stiffness * (target - position) - damping * velocity`` in the mode ``position``, and
    ``damping * (target - velocity)`` in the mode ``velocity``, within ``effort_max`` either way.
    """

    name: str
    type: Literal["revolute", "continuous", "prismatic"]
    """``continuous`` rotates without limit: ``lower`` and ``upper`` are infinite."""
    mode: Literal["position", "velocity", "free"]
    """What is commanded; a ``free`` joint has no drive."""
    lower: float
    upper: float
    velocity_max: float
    effort_max: float
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0
    """Position at reset."""
    armature: float = 0.0
    """Reflected inertia of the motor through its gear, kg m^2 or kg."""


@dataclass(frozen=True, kw_only=True)
class _PositionJoint:
    """A joint with a position loop; subclasses add the same quantities in the same order, in rad or in m."""

    name: str
    """As in the model."""
    unit: ClassVar[str]

    def __post_init__(self) -> None:
        joint, unit = self.driven, self.unit
        if joint.lower >= joint.upper:
            raise ValueError(
                f"position_max_{unit}: {joint.upper} is not allowed: must be above position_min_{unit} ({joint.lower})."
            )
        if not joint.lower <= joint.rest <= joint.upper:
            raise ValueError(
                f"rest_{unit}: {joint.rest} is not allowed: must be from {joint.lower} to {joint.upper} {unit}."
            )

    @cached_property
    def driven(self) -> DrivenJoint:
        """The joint as engines actuate it."""
        name, lower, upper, velocity_max, effort_max, stiffness, damping, armature, rest = astuple(self)
        return DrivenJoint(
            name=name,
            type="prismatic" if self.unit == "m" else "continuous" if lower is None else "revolute",
            mode="position",
            lower=-math.inf if lower is None else lower,
            upper=math.inf if upper is None else upper,
            velocity_max=velocity_max,
            effort_max=effort_max,
            stiffness=stiffness,
            damping=damping,
            armature=armature,
            rest=rest,
        )


@dataclass(frozen=True, kw_only=True)
class RevoluteJoint(_PositionJoint):
    """A revolute joint with a position loop."""

    unit: ClassVar[str] = "rad"
    position_min_rad: float | None = value(None, unit="rad")
    position_max_rad: float | None = value(None, unit="rad")
    """Without both it rotates without limit."""
    velocity_max_rad_s: float = value(unit="rad/s", above=0.0)
    effort_max_n_m: float = value(unit="N m", above=0.0)
    stiffness_n_m_per_rad: float = value(unit="N m/rad", above=0.0)
    damping_n_m_s_per_rad: float = value(unit="N m s/rad", at_least=0.0)
    armature_kg_m2: float = value(0.0, unit="kg m^2", at_least=0.0)
    """Reflected inertia of the motor through its gear."""
    rest_rad: float = value(0.0, unit="rad")

    def __post_init__(self) -> None:
        if (self.position_min_rad is None) != (self.position_max_rad is None):
            raise ValueError("position_min_rad and position_max_rad must both be there, or neither.")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class PrismaticJoint(_PositionJoint):
    """A prismatic joint with a position loop."""

    unit: ClassVar[str] = "m"
    position_min_m: float = value(unit="m")
    position_max_m: float = value(unit="m")
    velocity_max_m_s: float = value(unit="m/s", above=0.0)
    effort_max_n: float = value(unit="N", above=0.0)
    stiffness_n_per_m: float = value(unit="N/m", above=0.0)
    damping_n_s_per_m: float = value(unit="N s/m", at_least=0.0)
    armature_kg: float = value(0.0, unit="kg", at_least=0.0)
    """Reflected inertia of the motor through its gear."""
    rest_m: float = value(0.0, unit="m")


def clip_targets(joints: Sequence[DrivenJoint], target: Array) -> Array:
    """Return position targets (joints,) within the joints' ranges; those of continuous joints are unchanged."""
    return np.clip(target, [joint.lower for joint in joints], [joint.upper for joint in joints])


def rest_positions(joints: Sequence[DrivenJoint]) -> Array:
    """Return the positions of joints (joints,) at reset, rad or m."""
    return np.array([joint.rest for joint in joints], dtype=float)
