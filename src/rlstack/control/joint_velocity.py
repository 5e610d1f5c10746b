"""Velocity control of an arm: of its joints, and of its tool (resolved motion rate control, Whitney 1969).

Arms that take positions alone follow targets that the velocities lead on, never further ahead of the joints than these
could go in a moment. numpy and torch alike up to :class:`JointVelocity`, which keeps targets, for N robots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.control.inverse_kinematics import DAMPING, Limits, solve_damped
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import library_of

LEAD_S = 0.15
"""Targets are at most so far ahead of the joints, in time at their greatest speed."""


def within(velocity: Any, joints: Any, limits: Limits, period_s: float) -> Any:
    """Return velocities (N, J) that break no limit in the next period: those that would are cut, each for itself.

    Args:
        velocity: (N, J) rad/s or m/s wanted.
        joints: (N, J) rad or m now; one that is beyond its range already may only come back.
        limits: Of the joints.
        period_s: Until the next velocities.
    """
    xp = library_of(joints)
    none = 0.0 * joints
    fastest = limits.velocity + none
    down = xp.minimum(xp.maximum((limits.lower - joints) / period_s, -fastest), none)
    up = xp.maximum(xp.minimum((limits.upper - joints) / period_s, fastest), none)
    return xp.minimum(xp.maximum(velocity, down), up)


def tool_velocity(
    jacobian: Any, twist: Any, joints: Any, limits: Limits, period_s: float, damping: float = DAMPING
) -> Any:
    """Return the joints' velocities (N, J) that move the tool as wanted, as far as the limits allow.

    A joint that is at the end of its range and would be driven on is left out, and the others make up for it as far as
    they can. Where one would be too fast, all are slowed alike, so that the tool keeps its direction.

    Args:
        jacobian: (N, 6, J), see :class:`rlstack.robots.kinematics.ToolMotion`.
        twist: (N, 6) m/s, then rad/s about the axes of base_link.
        joints: (N, J) rad or m now.
        limits: Of the joints.
        period_s: Until the next velocities.
        damping: See :data:`rlstack.control.inverse_kinematics.DAMPING`.
    """
    xp = library_of(joints)
    free = joints * 0.0 + 1.0
    velocity = free
    for _ in range(3):  # each may drive another one to its end
        led = jacobian * free[:, None, :]
        weights = solve_damped(led @ led.swapaxes(1, 2), twist, damping)
        velocity = (led.swapaxes(1, 2) @ weights[:, :, None])[:, :, 0]
        after = joints + velocity * period_s
        out = ((after > limits.upper) & (velocity > 0.0)) | ((after < limits.lower) & (velocity < 0.0))
        free = xp.where(out, 0.0 * free, free)
    share = (xp.abs(velocity) / limits.velocity).max(1)
    share = share if xp is np else share.values
    return within(velocity / xp.clip(share, 1.0, None)[:, None], joints, limits, period_s)


class JointVelocity:
    """Targets of positions that lead N arms at velocities; all joints of the robot file, in its order.

    Args:
        robot: The arm.
        lead_s: See :data:`LEAD_S`.
    """

    def __init__(self, robot: Manipulator, lead_s: float = LEAD_S) -> None:
        drives = robot.drives
        self.limits = Limits(
            *(np.array([getattr(drive, what) for drive in drives]) for what in ("lower", "upper", "velocity_max"))
        )
        self._lead = lead_s * self.limits.velocity
        self._target: Array | None = None

    def release(self) -> None:
        """Forget the targets: the next step begins where the joints are."""
        self._target = None

    def step(self, joints: Array, velocity: Array, period_s: float) -> Array:
        """Return the targets (N, joints), rad or m, for the next period.

        A velocity of zero keeps the target, so that the arm holds against what pushes it.

        Args:
            joints: (N, joints) where they are.
            velocity: (N, joints) rad/s or m/s wanted.
            period_s: Until the next step.

        Raises:
            ValueError: A velocity, or where a joint is, is not finite; the targets stay.
        """
        for what, numbers in (("velocity", velocity), ("place", joints)):
            if not np.isfinite(numbers).all():
                raise ValueError(f"a joint's {what} is not finite")
        target = np.array(joints if self._target is None else self._target, dtype=float)
        target = np.clip(target, self.limits.lower, self.limits.upper)
        target = target + period_s * within(velocity, target, self.limits, period_s)
        target = np.clip(target, joints - self._lead, joints + self._lead)
        self._target = np.clip(target, self.limits.lower, self.limits.upper)
        return self._target.copy()
