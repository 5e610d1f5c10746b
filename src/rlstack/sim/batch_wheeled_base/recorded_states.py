"""States of a recorded base from its odometry, in the batch simulator's layout."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots.frames import yaw
from rlstack.sim.batch_wheeled_base.layout import STATE, STATE_WIDTH

_SLOW_M_S = 0.3
"""Below this speed a path's curvature is not told by speed and turning rate."""


def recorded_states(
    position: Array, orientation: Array, linear_velocity: Array, angular_velocity: Array, period_s: float
) -> NDArray[np.float32]:
    """Return the state rows (STATE_WIDTH, T) of T moments ``period_s`` apart.

    What a base wants, its setpoint, is not measured: it counts as what it does.

    Args:
        position: (T, 3) m, in the frame of the surroundings.
        orientation: (T, 4) xyzw.
        linear_velocity: (T, 3) m/s, base_link.
        angular_velocity: (T, 3) rad/s, base_link.
        period_s: Time between two moments, s.
    """
    rows = np.zeros((STATE_WIDTH, len(position)), dtype=np.float32)
    half, rate = 0.5 * yaw(orientation), angular_velocity[:, 2]
    twist = np.stack([*linear_velocity[:, :2].T, rate])
    rows[STATE["position"]] = position[:, :2].T
    rows[STATE["turn"]] = np.sin(half), np.cos(half)
    rows[STATE["velocity"]], rows[STATE["yaw_rate"]] = twist[:2], rate
    rows[STATE["setpoint"]] = twist
    if len(position) > 1:
        rows[STATE["ramp"]] = np.gradient(twist, period_s, axis=1)
    ahead = linear_velocity[:, 0]
    rows[STATE["curvature"]] = np.where(np.abs(ahead) > _SLOW_M_S, rate / np.where(ahead == 0.0, 1.0, ahead), 0.0)
    return rows
