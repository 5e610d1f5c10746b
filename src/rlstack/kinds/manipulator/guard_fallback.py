"""Fallback of a manipulator's guard: parks the arm slowly at its rest position."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.guard_limits import ManipulatorTargetLimiter
from rlstack.kinds.manipulator.spec import Manipulator


class ParkingFallback:
    """Moves the arm to rest at ``parking_speed``, the grippers unchanged."""

    def __init__(self, robot: Manipulator, config: ManipulatorGuardConfig, limiter: ManipulatorTargetLimiter) -> None:
        self._rest = np.array([drive.rest for drive in robot.drives])
        self._config, self._limiter = config, limiter

    def towards_rest(self, t: float) -> tuple[Array, bool]:
        """Return the next targets on the way to rest, and whether the motion has ended.

        It also ends where it would leave the workspace or collide with the arm itself.
        """
        limiter = self._limiter
        left = np.where(limiter.arm, self._rest - limiter.sent, 0.0)
        dt = min(max(0.0, t - limiter.sent_t), self._config.window_s)
        share = np.abs(left) / (limiter.fastest * self._config.parking_speed * max(dt, 1e-6))
        target, stopped = limiter.publish_apart(limiter.sent + left / max(1.0, float(share.max())), t)
        return target, bool({"workspace", "self-collision"} & set(stopped)) or not left.any()
