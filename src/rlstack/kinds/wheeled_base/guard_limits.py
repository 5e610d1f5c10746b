"""State limits of a wheeled base: tilt, speeds and geofence, and plausibility of odometry."""

from __future__ import annotations

import math

from rlstack.guard.observation import Observation
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig


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
