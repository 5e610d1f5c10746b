"""Odometry of a quadrotor that jumps: further than it can have flown, or faster than it can have accelerated."""

from __future__ import annotations

import math

from rlstack.guard.observation import Observation
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY

_LASTING = 3
"""Messages in a row after a jump that agree: the estimator has moved its origin, or something has hit the robot."""
_MARGIN = 1.5
"""Factor on what the robot can do: timing of messages, gusts."""


class JumpCheck:
    """Refuses odometry that contradicts the observation before, unless what follows agrees with it.

    Args:
        robot: The robot.
        config: Limits and margins.
    """

    def __init__(self, robot: Quadrotor, config: QuadrotorGuardConfig) -> None:
        self._config = config
        self._acceleration_m_s2 = (robot.thrust_to_weight + 1.0) * STANDARD_GRAVITY
        self._candidate: Observation | None = None
        self._candidates, self._why = 0, ""
        self._repeated = 0
        self._last: Observation | None = None
        self.acceleration: list[float] = [0.0, 0.0, 0.0]
        """(3,) m/s^2, world, from the velocities of the last two observations; zeros where they were apart."""
        self.lasting = ""
        """The jump that the newest accepted observation makes; empty if it makes none."""

    def forget(self) -> None:
        """Start anew, after the clock has jumped."""
        self._candidate, self._candidates, self.lasting = None, 0, ""
        self._repeated, self._last = 0, None
        self.acceleration = [0.0, 0.0, 0.0]

    def refuses(self, before: Observation | None, seen: Observation) -> str:
        """Return the jump for which an observation is refused, or an empty string.

        Args:
            before: The newest valid observation; None: there is none, or it is too old to compare with.
            seen: The observation.
        """
        self.lasting = ""
        last, self._last = self._last, seen
        if last is not None and self._is_frozen(last, seen):
            return f"the measured state has not changed in {self._config.frozen_observations} observations"
        jump = "" if before is None else self._jump(before, seen)
        agrees = self._candidate is not None and not self._jump(self._candidate, seen)
        if before is None or not (jump or agrees):
            self._candidate, self._candidates = None, 0
            self.acceleration = [0.0, 0.0, 0.0] if before is None else _acceleration(before, seen)
            return ""
        if not agrees:
            self._candidates, self._why = 0, jump
        self._candidate, self._candidates = seen, self._candidates + 1
        if self._candidates < _LASTING:
            return self._why
        self._candidate, self._candidates, self.lasting = None, 0, self._why
        self.acceleration = [0.0, 0.0, 0.0]
        return ""

    def _is_frozen(self, last: Observation, seen: Observation) -> bool:
        """Return whether a robot in the air is observed in exactly the same state again and again."""
        airborne = seen.position[2] - self._config.floor_m >= self._config.airborne_height_m
        same = airborne and seen.position == last.position and seen.orientation == last.orientation
        same = same and seen.linear_velocity == last.linear_velocity
        self._repeated = self._repeated + 1 if same and seen.angular_velocity == last.angular_velocity else 0
        return 0 < self._config.frozen_observations <= self._repeated

    def _jump(self, before: Observation, seen: Observation) -> str:
        config, dt = self._config, seen.stamp_s - before.stamp_s
        change = math.dist(seen.linear_velocity, before.linear_velocity)
        if change > _MARGIN * self._acceleration_m_s2 * dt + config.jump_m_s:
            return f"the measured velocity changed by {change:.2f} m/s in {dt:.3f} s"
        far, fastest = math.dist(seen.position, before.position), math.hypot(*before.linear_velocity)
        if far > _MARGIN * (fastest + 0.5 * self._acceleration_m_s2 * dt) * dt + config.jump_m:
            return f"the measured position moved by {far:.2f} m in {dt:.3f} s"
        same = abs(sum(a * b for a, b in zip(before.orientation, seen.orientation)))
        turned = 2.0 * math.acos(min(1.0, same))
        if turned > _MARGIN * config.angular_velocity_rad_s * dt + config.jump_rad:
            return f"the measured attitude turned by {turned:.2f} rad in {dt:.3f} s"
        return ""


def _acceleration(before: Observation, seen: Observation) -> list[float]:
    dt = max(seen.stamp_s - before.stamp_s, 1e-3)
    return [(v - u) / dt for u, v in zip(before.linear_velocity, seen.linear_velocity)]
