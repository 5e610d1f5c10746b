"""What the guard answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Mode(str, Enum):
    """Who flies."""

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
    ESTOP = "estop"
    """Motors off until the emergency stop is cleared."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Decision:
    """The guard's answer to one event.

    Args:
        command: (rotors,) rad/s to publish; None: publish nothing.
        stamp_s: Stamp of the observation that the command answers, s.
        mode: After the event.
        reason: Why the guard is in this mode, or why it did not take what it was given.
        changed: Whether the event changed the mode.
        clipped: Whether the command was held to the rotors' limits or to the rate limit.
    """

    command: Array | None
    stamp_s: float
    mode: Mode
    reason: str
    changed: bool = False
    clipped: bool = False
