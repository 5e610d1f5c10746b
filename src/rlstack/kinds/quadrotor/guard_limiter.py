"""Limiter for rotor speed commands."""

from __future__ import annotations

import math

import numpy as np

from rlstack.guard.guard import LimitedCommand
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor


class CommandLimiter:
    """Limits commands to the rotors' range and the rate limit.

    Args:
        robot: The robot.
        config: The rate limit.
    """

    def __init__(self, robot: Quadrotor, config: QuadrotorGuardConfig) -> None:
        self._config, self._count = config, len(robot.rotors)
        self._low, self._high = robot.rotor_model.speed_min_rad_s, robot.rotor_model.speed_max_rad_s
        self._sent_t = 0.0
        self.sent: list[float] = [self._low] * self._count
        """The last published command, rad/s."""

    def start(self, t: float, speed: float) -> None:
        """Start at ``t`` with all rotors at a speed, rad/s, clipped to their range."""
        self.sent = [min(max(speed, self._low), self._high)] * self._count
        self._sent_t = t - self._config.period_s

    def limit(self, t: float, wanted: list[float]) -> LimitedCommand:
        """Return a desired command (rotors,) in rad/s within the limits."""
        step = self._config.rotor_acceleration_rad_s2 * max(0.0, t - self._sent_t)
        # The rate limit first: the last command is within the range, so the range never forces a faster change.
        held = [min(max(w, b - step), b + step) for w, b in zip(wanted, self.sent)]
        held = [min(max(h, self._low), self._high) for h in held]
        if not math.isfinite(sum(held)):  # no known input leads here, but published commands must always be finite
            held = self.sent
        self.sent, self._sent_t = held, t
        return LimitedCommand(np.array(held), held != wanted)
