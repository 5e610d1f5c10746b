"""The guard's decisions and modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from rlstack.arrays import Array

Role = Literal["off", "normal", "intervention"]
"""What a mode means to an observer: the robot is stopped, all is well, or the guard has taken over."""


CLOCK_JUMPED = "the clock of the observations has jumped"
CLOCK_ADVICE = (
    "Let one clock stamp them: synchronise the machines (chrony), or look for a second publisher; then arm again."
)


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


class Transition(NamedTuple):
    """A change of mode that a guard can make.

    Args:
        source: The mode before.
        target: The mode after.
        when: Why, in a few words.
    """

    source: Mode
    target: Mode
    when: str


@dataclass(frozen=True)
class Decision:
    """The guard's answer to one event.

    Args:
        command: To publish: (rotors,) rad/s, or (4,) rates and thrust, for a quadrotor; (2,) m/s and rad/s for a
            wheeled base; (joints,) rad or m for an arm; None: nothing.
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


class LimitedCommand(NamedTuple):
    """A command within the limits.

    Args:
        command: (elements,) in the signal's unit.
        clipped: Whether it was limited.
        blocked: The obstacle that slowed it, if any.
        held_for: The limits that applied, where the guard reports them.
    """

    command: Array
    clipped: bool = False
    blocked: str = ""
    held_for: str = ""


def all_transitions(own: Sequence[Transition], ends: str = "") -> tuple[Transition, ...]:
    """Return a kind's changes of mode and those that every guard has: disarming and the emergency stop.

    Args:
        own: The kind's.
        ends: Faults that switch the robot off from any armed mode, besides ``disarm``.
    """
    armed = dict.fromkeys(mode for t in own for mode in (t.source, t.target) if mode.role != "off")
    known, when = {(t.source, t.target) for t in own}, "; ".join(filter(None, ("disarm", ends)))
    off = (Transition(m, CommonMode.DISARMED, when) for m in armed if (m, CommonMode.DISARMED) not in known)
    stops = (Transition(mode, CommonMode.ESTOP, "estop") for mode in (CommonMode.DISARMED, *armed))
    return (*own, *off, *stops, Transition(CommonMode.ESTOP, CommonMode.DISARMED, "clear_estop"))
