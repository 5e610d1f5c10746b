"""Limits of a quadruped: tilt, and the ranges and speeds of its joint targets."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.guard.guard import LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.quadruped.guard_config import QuadrupedGuardConfig
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots.joints import clip_targets

SAME_RAD = 1e-6
"""Tolerance for rounding of targets, and of limits that a float32 policy respects itself."""


def broken_limit(seen: Observation, config: QuadrupedGuardConfig) -> str:
    """Return which limit the state violates, with the values, or an empty string."""
    if seen.tilt_rad <= config.tilt_rad:
        return ""
    return f"tilted by {seen.tilt_rad:.2f} rad, over {config.tilt_rad:.2f}: set it level on its feet, then arm it"


class QuadrupedTargetLimiter:
    """Limits targets to the joints' ranges and speeds."""

    def __init__(self, robot: Quadruped, config: QuadrupedGuardConfig) -> None:
        self._drives, self._config = robot.drives, config
        self._fastest = np.array([drive.velocity_max for drive in robot.drives])
        self.sent, self._sent_t = robot.standing, 0.0
        """(joints,) rad: the last published targets."""

    def start(self, t: float, position: Array) -> None:
        """Start at the joints' positions (joints,)."""
        self.sent, self._sent_t = clip_targets(self._drives, position), t

    def pass_on(self, t: float, wanted: Array) -> LimitedCommand:
        """Return desired targets (joints,) within the limits, and the limits that applied."""
        held = clip_targets(self._drives, wanted)
        reasons = ["joint range"] if (np.abs(held - wanted) > SAME_RAD).any() else []
        room = self._fastest * self.since_s(t) + SAME_RAD
        slowed = np.clip(held, self.sent - room, self.sent + room)
        if (slowed != held).any():
            reasons.append("joint speed")
        return LimitedCommand(self.publish(t, slowed), bool(reasons), held_for=", ".join(reasons))

    def since_s(self, t: float) -> float:
        """Return the time since the last targets whose motion may be covered at once, s: at least one period."""
        return min(max(t - self._sent_t, self._config.period_s), self._config.staleness_s)

    def publish(self, t: float, target: Array) -> Array:
        """Store targets (joints,) as the last ones and return a copy."""
        self.sent, self._sent_t = target, t
        return target.copy()
