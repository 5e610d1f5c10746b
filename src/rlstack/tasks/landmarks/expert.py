"""What the scripted experts of all kinds of robots share."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array

_INSIDE = 0.75
"""Where the expert stops, as a share of the distance within which a robot is there."""
_SLOWS = 0.7
"""Distance from there in which it slows down, likewise."""


def approach(offset: Array, gap: Array, arrival_m: float) -> tuple[Array, Array]:
    """Return the share of the top speed (N,) at which to approach a landmark, and its direction (N,) rad.

    Args:
        offset: (N, 2) m, the landmark in the horizontal frame of the robot.
        gap: (N,) m, distance from its surface.
        arrival_m: Distance within which the robot is there.
    """
    left = gap - _INSIDE * arrival_m
    return np.clip(left / (_SLOWS * arrival_m), -0.3, 1.0), np.arctan2(offset[:, 1], offset[:, 0])
