"""Limiter for a base's twist commands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlstack.guard.guard import LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.guard_limits import forward_m_s
from rlstack.kinds.wheeled_base.guard_protective_stop import ProtectiveStop

_FACTORS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
"""Fractions of a blocked speed: the largest that is not blocked is used."""

_STILL_M_S = 0.01

_LONGEST_S = 0.1
"""A period of base policies, which may be slower than the base: a command may change by what this period allows."""


class CommandLimiter:
    """Limits commands to the base's limits, the rate limit and the protective stop.

    Args:
        config: The limits.
        protective_stop: Detects obstacles in the way.
    """

    def __init__(self, config: WheeledBaseGuardConfig, protective_stop: ProtectiveStop) -> None:
        self._config, self._protective_stop = config, protective_stop
        self._longest_s = max(config.period_s, _LONGEST_S)
        self.sent = [0.0, 0.0]
        """The last published command, m/s and rad/s."""
        self.sent_t = 0.0
        """Time of its publication, s."""

    @property
    def stopped(self) -> bool:
        """Whether the last command was a stop."""
        return self.sent == [0.0, 0.0]

    def start(self, t: float, seen: Observation) -> None:
        """Start at the robot's present speed."""
        speed = forward_m_s(seen)
        rolling = abs(speed) > _STILL_M_S
        self.sent = self._within([speed, seen.angular_velocity[2]]) if rolling else [0.0, 0.0]
        self.sent_t = t - self._config.period_s

    def pass_on(self, t: float, wanted: Sequence[float], seen: Observation) -> LimitedCommand:
        """Return a desired command (2,), m/s and rad/s, within the limits."""
        held = self._towards(t, self._within(wanted))
        held, blocked = self._free(t, held, seen)
        return LimitedCommand(np.array(self._publish(t, held)), held != list(wanted), blocked)

    def slow_down(self, t: float, seen: Observation) -> LimitedCommand | None:
        """Return the command that a new obstacle requires at once; None if there is none."""
        held, blocked = self._free(t, self.sent, seen)
        if not blocked or held == self.sent:
            return None
        return LimitedCommand(np.array(self._publish(t, held)), True, blocked)

    def brake(self, t: float) -> list[float]:
        """Return the next command of a controlled stop; it needs no odometry."""
        return self._publish(t, self._towards(t, [0.0, 0.0]))

    def _within(self, wanted: Sequence[float]) -> list[float]:
        top = (self._config.linear_velocity_m_s, self._config.angular_velocity_rad_s)
        return [min(max(w, -most), most) for w, most in zip(wanted, top)]

    def _towards(self, t: float, wanted: Sequence[float]) -> list[float]:
        # after a longer gap the base still drives at its last command, so braking must start gently from there
        dt = min(max(0.0, t - self.sent_t), self._longest_s)
        rates = (self._config.linear_acceleration_m_s2, self._config.angular_acceleration_rad_s2)
        return [min(max(w, b - rate * dt), b + rate * dt) for w, b, rate in zip(wanted, self.sent, rates)]

    def _free(self, t: float, held: list[float], seen: Observation) -> tuple[list[float], str]:
        """Return the command at the highest unblocked speed, but never braked harder than the base can."""
        if self._protective_stop.lidar is None:
            return held, ""
        around = self._protective_stop.around(seen)
        if not len(around):
            return held, ""
        measured, turning = forward_m_s(seen), held[1]
        # the robot may still be faster than its command, or not yet as fast
        speed = math.copysign(max(abs(held[0]), abs(measured)), held[0]) if held[0] * measured > 0.0 else held[0]
        blocked = self._protective_stop.in_the_way(around, speed, turning)
        if not blocked:
            return held, ""
        tries = [(factor * held[0], turning) for factor in _FACTORS if held[0]]
        for trial in [*tries, (0.0, turning), (0.0, 0.0)]:
            if not self._protective_stop.in_the_way(around, *trial):
                break
        return self._towards(t, trial), blocked

    def _publish(self, t: float, held: list[float]) -> list[float]:
        if not math.isfinite(sum(held)):  # no known input leads here, but published commands must always be finite
            held = [0.0, 0.0]
        self.sent, self.sent_t = held, t
        return held
