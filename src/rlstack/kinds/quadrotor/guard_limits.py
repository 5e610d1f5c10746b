"""State limits of a quadrotor: tilt, speed, angular velocity and geofence."""

from __future__ import annotations

import math

from rlstack.guard.observation import Observation
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig


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
