"""Limits of a quadrotor: tilt, speed, angular velocity and geofence, and the range and rate of rotor speeds."""

from __future__ import annotations

import math

import numpy as np

from rlstack.guard.guard import LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor


def broken_limit(seen: Observation, config: QuadrotorGuardConfig) -> str:
    """Return which limit the state violates, with the values, or an empty string."""
    if seen.tilt_rad > config.tilt_rad:
        return f"tilt {seen.tilt_rad:.2f} rad is over {config.tilt_rad:.2f} rad"
    speed = math.hypot(*seen.linear_velocity)
    if speed > config.linear_velocity_m_s:
        return f"speed {speed:.2f} m/s is over {config.linear_velocity_m_s:.2f} m/s"
    turn = math.hypot(*seen.angular_velocity)
    if turn > config.angular_velocity_rad_s:
        return f"angular velocity {turn:.1f} rad/s is over {config.angular_velocity_rad_s:.1f} rad/s"
    fence = zip("xyz", seen.position, seen.linear_velocity, config.geofence_min_m, config.geofence_max_m)
    for axis, p, v, low, high in fence:
        stopped = p + v * (config.reaction_s + 0.5 * abs(v) / config.braking_m_s2)
        if axis == "z":
            stopped = max(stopped, p)  # the floor is below: low and landing flight must remain possible
        if not (low <= p <= high and low <= stopped <= high):
            return f"{axis} = {p:.2f} m at {v:+.2f} m/s breaks the geofence of {low:.2f} to {high:.2f} m"
    return ""


class RotorSpeedLimiter:
    """Limits rotor speed commands to the rotors' range and the rate limit."""

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
