"""Limits of a wheeled base: tilt, speeds, geofence and plausible odometry, and the limiter of its twist commands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlstack.guard.guard import LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.guard_protective_stop import ProtectiveStop

_FACTORS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
"""Fractions of a blocked speed: the largest that is not blocked is used."""

_STILL_M_S = 0.01

_LONGEST_S = 0.1
"""A period of base policies, which may be slower than the base: a command may change by what this period allows."""


def forward_m_s(seen: Observation) -> float:
    """Return the speed along the robot's heading, m/s; negative backwards."""
    vx, vy, _ = seen.linear_velocity
    return math.cos(seen.yaw_rad) * vx + math.sin(seen.yaw_rad) * vy


def broken_limit(seen: Observation, config: WheeledBaseGuardConfig) -> str:
    """Return which limit the state violates, with the values, or an empty string."""
    if seen.tilt_rad > config.tilt_rad:
        return f"tilt {seen.tilt_rad:.2f} rad is over {config.tilt_rad:.2f} rad"
    speed, most = math.hypot(*seen.linear_velocity[:2]), config.overspeed * config.linear_velocity_m_s
    if speed > most:
        return f"speed {speed:.2f} m/s is over {most:.2f} m/s"
    turn, most = abs(seen.angular_velocity[2]), config.overspeed * config.angular_velocity_rad_s
    if turn > most:
        return f"angular velocity {turn:.2f} rad/s is over {most:.2f} rad/s"
    braking = 0.5 / config.linear_acceleration_m_s2
    for axis, p, v, low, high in zip(
        "xy", seen.position, seen.linear_velocity, config.geofence_min_m, config.geofence_max_m
    ):
        stopped = p + v * (config.reaction_s + braking * speed)
        if not low <= p <= high or (stopped < low and v < 0.0) or (stopped > high and v > 0.0):
            return f"{axis} = {p:.2f} m at {v:+.2f} m/s breaks the geofence of {low:.2f} to {high:.2f} m"
    return ""


def jump(before: Observation, now: Observation, config: WheeledBaseGuardConfig) -> str:
    """Return how far odometry jumped in what time, if its own speeds cannot explain it, or an empty string."""
    dt = max(0.0, now.stamp_s - before.stamp_s)  # negative if the clock was restarted
    gone = math.dist(before.position[:2], now.position[:2])
    speed = max(math.hypot(*seen.linear_velocity[:2]) for seen in (before, now))
    if gone > config.jump_factor * speed * dt + config.jump_m:
        return f"odometry jumped by {gone:.2f} m in {dt:.3f} s at {speed:.2f} m/s"
    turned = abs(math.remainder(now.yaw_rad - before.yaw_rad, 2.0 * math.pi))
    turning = max(abs(seen.angular_velocity[2]) for seen in (before, now))
    if turned > config.jump_factor * turning * dt + config.jump_rad:
        return f"odometry jumped by {turned:.2f} rad in {dt:.3f} s at {turning:.2f} rad/s"
    return ""


class TwistLimiter:
    """Limits commands to the base's limits, the rate limit and the protective stop."""

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
        around = self._protective_stop.hits(seen)
        if not len(around):
            return held, ""
        measured, turning = forward_m_s(seen), held[1]
        # the robot may still be faster than its command, or not yet as fast
        speed = math.copysign(max(abs(held[0]), abs(measured)), held[0]) if held[0] * measured > 0.0 else held[0]
        blocked = self._protective_stop.obstacle_on_path(around, speed, turning)
        if not blocked:
            return held, ""
        tries = [(factor * held[0], turning) for factor in _FACTORS if held[0]]
        for trial in [*tries, (0.0, turning), (0.0, 0.0)]:
            if not self._protective_stop.obstacle_on_path(around, *trial):
                break
        return self._towards(t, trial), blocked

    def _publish(self, t: float, held: list[float]) -> list[float]:
        if not math.isfinite(sum(held)):  # no known input leads here, but published commands must always be finite
            held = [0.0, 0.0]
        self.sent, self.sent_t = held, t
        return held
