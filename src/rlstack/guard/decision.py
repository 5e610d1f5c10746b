"""What the guard answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from rlstack.arrays import Array

Role = Literal["off", "normal", "intervention"]
"""What a mode means to whoever watches: nothing moves, all is well, or the guard has taken over from the policy."""


class Mode(str, Enum):
    """Who commands. A kind of robot declares its own modes in a subclass: ``HOVER = "hover", "intervention"``.

    The text is what goes out on the topic ``guard/mode``.
    """

    role: Role

    def __new__(cls, text: str, role: Role) -> Mode:
        """Make a member of its text and its role."""
        member = str.__new__(cls, text)
        member._value_, member.role = text, role
        return member

    def __str__(self) -> str:
        return self.value


class CommonMode(Mode):
    """The modes of every guard."""

    DISARMED = "disarmed", "off"
    """Motors off."""
    POLICY = "policy", "normal"
    """The policy, within the limits."""
    ESTOP = "estop", "off"
    """Motors off until the emergency stop is cleared."""


@dataclass(frozen=True)
class Decision:
    """The guard's answer to one event.

    Args:
        command: To publish: of a quadrotor (rotors,) rad/s, of a wheeled base (2,) m/s and rad/s, of an arm
            (joints,) rad or m; None: nothing.
        stamp_s: Stamp of the observation that the command answers, s.
        mode: After the event.
        reason: Why the guard is in this mode, or why it did not take what it was given.
        changed: Whether the event changed the mode.
        clipped: Whether the command was held back: to the robot's limits, to the rate limit, or for what is in the way.
        blocked: What is in the way, if the command was slowed for it.
        held_for: Which limits a command was held back for, where the guard says.
    """

    command: Array | None
    stamp_s: float
    mode: Mode
    reason: str
    changed: bool = False
    clipped: bool = False
    blocked: str = ""
    held_for: str = ""
