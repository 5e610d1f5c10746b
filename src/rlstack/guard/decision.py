"""The guard's decisions and modes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from rlstack.arrays import Array

Role = Literal["off", "normal", "intervention"]
"""What a mode means to an observer: the robot is stopped, all is well, or the guard has taken over."""


class Mode(str, Enum):
    """What commands the robot. Each kind declares its own modes in a subclass: ``HOVER = "hover", "intervention"``.

    The text is published on the topic ``guard/mode``.
    """

    role: Role

    def __new__(cls, text: str, role: Role) -> Mode:
        """Create the member from its text and its role."""
        member = str.__new__(cls, text)
        member._value_, member.role = text, role
        return member

    def __str__(self) -> str:
        return self.value


class CommonMode(Mode):
    """Modes that every guard has."""

    DISARMED = "disarmed", "off"
    """Motors off."""
    POLICY = "policy", "normal"
    """The policy commands, within the limits."""
    ESTOP = "estop", "off"
    """Motors are off until the emergency stop is cleared."""


@dataclass(frozen=True)
class Decision:
    """The guard's answer to one event.

    Args:
        command: To publish: (rotors,) rad/s for a quadrotor, (2,) m/s and rad/s for a wheeled base, or
            (joints,) rad or m for an arm; None: nothing.
        stamp_s: Stamp of the observation that the command answers, s.
        mode: After the event.
        reason: Why the guard is in this mode, or why it rejected the input.
        changed: Whether the event changed the mode.
        clipped: Whether the robot's limits, the rate limit or an obstacle limited the command.
        blocked: The obstacle that slowed the command, if any.
        held_for: The limits that limited the command, where the guard reports them.
    """

    command: Array | None
    stamp_s: float
    mode: Mode
    reason: str
    changed: bool = False
    clipped: bool = False
    blocked: str = ""
    held_for: str = ""
