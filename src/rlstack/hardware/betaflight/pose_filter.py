"""Velocity from poses of a motion capture or of visual odometry, with the accelerometer between them."""

from __future__ import annotations

import math

import numpy as np

from rlstack.arrays import Array
from rlstack.robots.frames import rotate
from rlstack.robots.spec import STANDARD_GRAVITY

POSITION_NOISE_M = 0.001
ACCELERATION_NOISE_M_S2 = 1.0
"""What the accelerometer leaves unknown: its bias, vibration, and gravity where the tilt is a little wrong."""
_GAP_S = 0.2
"""A longer gap begins anew."""
_DOWN = np.array([0.0, 0.0, -STANDARD_GRAVITY])


class PoseFilter:
    """A Kalman filter of position and velocity with constant gains, which depend on the time between poses."""

    def __init__(self) -> None:
        self._time_s = -math.inf
        self.position = np.zeros(3)
        self.orientation = np.array([0.0, 0.0, 0.0, 1.0])
        self.velocity = np.zeros(3)
        """(3,) m/s, world frame."""

    @property
    def time_s(self) -> float:
        """Time of the newest pose, s; -inf: there was none."""
        return self._time_s

    def take(self, time_s: float, position: Array, orientation: Array, acceleration: Array | None) -> None:
        """Take a pose.

        Args:
            time_s: When it was measured; later than the last.
            position: (3,) m, world frame.
            orientation: (4,) xyzw, body in world.
            acceleration: (3,) m/s^2 in the body frame as an accelerometer measures it, gravity included; None: unknown.
        """
        step_s = time_s - self._time_s
        self._time_s, self.orientation = time_s, orientation
        if not step_s < _GAP_S:
            self.position, self.velocity = position, np.zeros(3)
            return
        gained = np.zeros(3) if acceleration is None else rotate(orientation, acceleration) + _DOWN
        foreseen = self.position + step_s * self.velocity + 0.5 * step_s * step_s * gained
        alpha, beta = _gains(step_s)
        error = position - foreseen
        self.position = foreseen + alpha * error
        self.velocity = self.velocity + step_s * gained + beta / step_s * error


def _gains(step_s: float) -> tuple[float, float]:
    """Return the steady gains of an alpha-beta filter by Kalata's tracking index (IEEE TAES 20, 1984)."""
    index = ACCELERATION_NOISE_M_S2 * step_s * step_s / POSITION_NOISE_M
    damping = (4.0 + index - math.sqrt(8.0 * index + index * index)) / 4.0
    return 1.0 - damping * damping, 2.0 * (2.0 - (1.0 - damping * damping)) - 4.0 * damping
