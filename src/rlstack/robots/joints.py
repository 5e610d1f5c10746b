"""A joint as engines drive it, whatever kind of robot it is on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class DrivenJoint:
    """One joint with its limits and the gains of its drive, in rad and N m, or for ``prismatic`` in m and N.

    A drive's effort is ``stiffness * (target - position) - damping * velocity`` where its mode is ``position``,
    and ``damping * (target - velocity)`` where it is ``velocity``, within ``effort_max`` either way.
    """

    name: str
    type: Literal["revolute", "continuous", "prismatic"]
    """``continuous`` turns without limit: ``lower`` and ``upper`` are infinite."""
    mode: Literal["position", "velocity", "free"]
    """What is commanded; a ``free`` joint has no drive."""
    lower: float
    upper: float
    velocity_max: float
    effort_max: float
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0
    """Where it is at reset."""
    armature: float = 0.0
    """Inertia of the motor as felt through its gear, kg m^2 or kg."""
