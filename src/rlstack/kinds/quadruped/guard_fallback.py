"""Fallback of a quadruped's guard: moves the legs to the standing or the crouching posture."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadruped.guard_config import QuadrupedGuardConfig
from rlstack.kinds.quadruped.guard_limits import SAME_RAD, QuadrupedTargetLimiter
from rlstack.kinds.quadruped.spec import Quadruped


class PostureFallback:
    """Moves all joints in proportion, the fastest at ``posture_speed_rad_s``, from the last published targets."""

    def __init__(self, robot: Quadruped, config: QuadrupedGuardConfig, limiter: QuadrupedTargetLimiter) -> None:
        self._robot, self._config, self._limiter = robot, config, limiter

    def towards(self, t: float, crouching: bool) -> Array | None:
        """Return the next targets (joints,), rad, on the way to the posture; None: it is reached."""
        sent = self._limiter.sent
        way = (self._robot.crouching if crouching else self._robot.standing) - sent
        furthest = float(np.abs(way).max())
        if furthest <= SAME_RAD:
            return None
        room = self._config.posture_speed_rad_s * self._limiter.since_s(t)
        return self._limiter.publish(t, sent + way * min(1.0, room / furthest))
