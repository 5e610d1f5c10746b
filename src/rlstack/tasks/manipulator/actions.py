"""What actions of arms move, and how far."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value

AXES = ("x", "y", "z", "yaw", "gripper")
"""What an action can move, in this order."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """How far actions go."""

    speed_m_s: float = value(0.4, unit="m/s", above=0.0)
    """Of the tool along each axis at an action of 1."""
    yaw_rate_rad_s: float = value(1.5, unit="rad/s", above=0.0)
    lead_s: float = value(0.15, unit="s", above=0.0)
    """Targets run ahead of the joints by no more than the joints could go in this time."""
    posture: float = value(0.05, at_least=0.0, at_most=1.0)
    """Share of the way to the rest posture that joints go in a step, where the tool does not mind."""
