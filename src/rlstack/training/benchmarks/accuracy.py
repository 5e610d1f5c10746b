"""Integration error of a simulator, against a fine solution of its own dynamics."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames

PERIODS = 100
"""Control periods of 10 ms in a flight; each holds new random commands."""

KINDS = {"hover +-15%": (0.85, 1.15), "full range": (0.0, np.inf)}
"""Range of commands as a share of hover speed, clipped to the robot's range."""


def departure(pairs: Iterable[tuple[Array, Array, Array, Array]]) -> dict[str, float]:
    """Return the largest differences in position, m, and attitude, rad.

    Args:
        pairs: Position (N, 3) and orientation xyzw (N, 4) of both solutions, at each time.
    """
    position = attitude = 0.0
    for p, q, fine_p, fine_q in pairs:
        between = frames.multiply(frames.inverse(frames.normalise(q)), frames.normalise(fine_q))
        sine = np.linalg.norm(between[:, :3], axis=1)
        position = max(position, float(np.linalg.norm(p - fine_p, axis=1).max()))
        attitude = max(attitude, float(2.0 * np.arcsin(np.clip(sine, 0.0, 1.0)).max()))
    return {"position_m": position, "attitude_rad": attitude}
