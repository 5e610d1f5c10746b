"""Limits of a quadrotor: tilt, speed, angular velocity and geofence, and the range and rate of its commands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlstack.guard.guard import LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor

STILL = (0.0, 0.0, 0.0)


def broken_limit(
    seen: Observation, config: QuadrotorGuardConfig, share: float = 1.0, acceleration: Sequence[float] = STILL
) -> str:
    """Return which limit the state violates, with the values, or an empty string.

    Args:
        seen: The state.
        config: The limits.
        share: As in :func:`over_limit`.
        acceleration: As in :func:`beyond_fence`.
    """
    return over_limit(seen, config, share) or beyond_fence(seen, config, acceleration)


def over_limit(seen: Observation, config: QuadrotorGuardConfig, share: float = 1.0) -> str:
    """Return which limit of tilt, speed or angular velocity the state violates, or an empty string.

    Args:
        seen: The state.
        config: The limits.
        share: Share of a limit that counts as the limit.
    """
    speed, turn = math.hypot(*seen.linear_velocity), math.hypot(*seen.angular_velocity)
    for what, measured, limit, unit in (
        ("tilt", seen.tilt_rad, config.tilt_rad, "rad"),
        ("speed", speed, config.linear_velocity_m_s, "m/s"),
        ("angular velocity", turn, config.angular_velocity_rad_s, "rad/s"),
    ):
        if measured > share * limit:
            near = "over" if measured > limit else f"over {share:.0%} of"
            return f"{what} {measured:.2f} {unit} is {near} {limit:.2f} {unit}"
    return ""


def beyond_fence(seen: Observation, config: QuadrotorGuardConfig, acceleration: Sequence[float] = STILL) -> str:
    """Return the side of the geofence that the robot is beyond or cannot stop inside, or an empty string.

    Args:
        seen: The state.
        config: The limits.
        acceleration: (3,) m/s^2, world: present until braking begins.
    """
    fence = zip("xyz", seen.position, seen.linear_velocity, acceleration, config.geofence_min_m, config.geofence_max_m)
    for axis, p, v, a, low, high in fence:
        above, below = p + stopping_m(v, a, config), p - stopping_m(-v, -a, config)
        if axis == "z":
            below = p  # the floor is below: low and landing flight must remain possible
        if not (low <= p <= high and low <= below and above <= high):
            return f"{axis} = {p:.2f} m at {v:+.2f} m/s breaks the geofence of {low:.2f} to {high:.2f} m"
    return ""


def is_outside(seen: Observation, config: QuadrotorGuardConfig) -> bool:
    """Return whether the robot is outside the geofence now."""
    return any(not a <= p <= b for p, a, b in zip(seen.position, config.geofence_min_m, config.geofence_max_m))


def inside_m(seen: Observation, config: QuadrotorGuardConfig) -> float:
    """Return the distance to the nearest side of the geofence, m, except the lower one; negative outside."""
    sides = [high - p for p, high in zip(seen.position, config.geofence_max_m)]
    return min(*sides, *(p - low for p, low in zip(seen.position[:2], config.geofence_min_m)))


def stopping_m(velocity_m_s: float, acceleration_m_s2: float, config: QuadrotorGuardConfig) -> float:
    """Return how far a robot goes in a direction until it stops, m: a reaction at its acceleration, then braking.

    Args:
        velocity_m_s: In that direction; below 0: it moves away.
        acceleration_m_s2: In that direction; below 0 it does not count.
        config: Reaction time and braking.
    """
    speed_up = max(acceleration_m_s2, 0.0)
    end = velocity_m_s + speed_up * config.reaction_s
    if end <= 0.0:
        return 0.0
    return max(0.0, 0.5 * (velocity_m_s + end) * config.reaction_s) + 0.5 * end * end / config.braking_m_s2


class CommandLimiter:
    """Limits commands to the robot's range and the rate limit: rotor speeds, or rates and thrust."""

    def __init__(self, robot: Quadrotor, config: QuadrotorGuardConfig) -> None:
        self._config, self._loop = config, robot.rate_loop
        self._low, self._high = command_range(robot, command_of(robot).name)
        self._rest = self._low if robot.rate_loop is None else (0.0,) * len(self._low)
        self._hover = robot.hover_command.tolist()
        self._sent_t = 0.0
        self.sent: list[float] = list(self._rest)
        """The last published command."""

    def start(self, t: float, flying: bool) -> None:
        """Start at ``t`` from the command that hovers, or that keeps the robot on the ground."""
        wanted = self._hover if flying else self._rest
        self.sent = [min(max(w, low), high) for w, low, high in zip(wanted, self._low, self._high)]
        self._sent_t = t - self._config.period_s

    def limit(self, t: float, wanted: list[float]) -> LimitedCommand:
        """Return a desired command within the limits."""
        dt = max(0.0, t - self._sent_t)
        steps = [change * dt for change in self._changes()]
        # The rate limit first: the last command is within the range, so the range never forces a faster change.
        held = [min(max(w, b - step), b + step) for w, b, step in zip(wanted, self.sent, steps)]
        held = [min(max(h, low), high) for h, low, high in zip(held, self._low, self._high)]
        if not math.isfinite(sum(held)):  # no known input leads here, but published commands must always be finite
            held = self.sent
        self.sent, self._sent_t = held, t
        return LimitedCommand(np.array(held), held != wanted)

    def _changes(self) -> tuple[float, ...]:
        """Return the fastest change of each element, per second."""
        if self._loop is None:
            return (self._config.rotor_acceleration_rad_s2,) * len(self._low)
        return (*(self._loop.rate_change_rad_s2,) * 3, self._loop.thrust_change_m_s3)
