"""What the guard answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Mode(str, Enum):
    """Who commands; TAKEOFF, HOVER and LAND are quadrotors' modes, STOP and FALLBACK those of wheeled bases, HOLD and
    PARK those of arms."""

    DISARMED = "disarmed"
    """Motors off."""
    TAKEOFF = "takeoff"
    """The guard climbs to the take-off height."""
    POLICY = "policy"
    """The policy, within the limits."""
    HOVER = "hover"
    """The guard holds the place."""
    LAND = "land"
    """The guard descends until it feels the floor."""
    STOP = "stop"
    """The guard brakes and stands still."""
    FALLBACK = "fallback"
    """A classical planner drives in the policy's stead."""
    HOLD = "hold"
    """The guard keeps the joints at their last targets."""
    PARK = "park"
    """The guard leads an arm slowly to its rest position."""
    ESTOP = "estop"
    """Motors off until the emergency stop is cleared."""

    def __str__(self) -> str:
        return self.value


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
