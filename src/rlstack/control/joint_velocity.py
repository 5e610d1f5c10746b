"""Velocity control of an arm's joints and of its tool (resolved motion rate control, Whitney 1969).

Arms that take only positions follow targets integrated from the velocities, at most a short time ahead of the joints.
For N robots, numpy and torch alike, except :class:`JointVelocity`, which keeps the targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.control.inverse_kinematics import DAMPING, Limits, damped_motion, limits_of
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.frames import library_of

LEAD_S = 0.15
"""Largest lead of the targets over the joints, as time at the joints' maximum speed: releasing an input device stops
the arm, and a blocked arm does not accumulate commands."""


def within(velocity: Any, joints: Any, limits: Limits, period_s: float) -> Any:
    """Return velocities (N, J) clipped, each by itself, so that no joint breaks a limit in the next period.

    Args:
        velocity: (N, J) rad/s or m/s wanted.
        joints: (N, J) rad or m, current positions; a joint beyond its range may only move back.
        limits: Joint limits.
        period_s: Time until the next velocities.
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
    """Return joint velocities (N, J) that move the tool as wanted, as far as the limits allow.

    A joint at its limit that would move further is left out, and the others compensate as far as they can. If a joint
    would be too fast, all are scaled alike, so that the tool keeps its direction.

    Args:
        jacobian: (N, 6, J), see :class:`rlstack.robots.kinematics.ToolMotion`.
        twist: (N, 6) m/s, then rad/s about the axes of base_link.
        joints: (N, J) rad or m, current positions.
        limits: Joint limits.
        period_s: Time until the next velocities.
        damping: See :data:`rlstack.control.inverse_kinematics.DAMPING`.
    """
    xp = library_of(joints)
    free = joints * 0.0 + 1.0
    velocity = free
    for _ in range(3):  # leaving one out may drive another to its limit
        velocity = damped_motion(jacobian * free[:, None, :], twist, damping)
        after = joints + velocity * period_s
        out = ((after > limits.upper) & (velocity > 0.0)) | ((after < limits.lower) & (velocity < 0.0))
        free = xp.where(out, 0.0 * free, free)
    share = (xp.abs(velocity) / limits.velocity).max(1)
    share = share if xp is np else share.values
    return within(velocity / xp.clip(share, 1.0, None)[:, None], joints, limits, period_s)


class JointVelocity:
    """Position targets integrated from velocities for N arms; all joints of the robot file, in its order.

    Args:
        robot: The arm.
        lead_s: See :data:`LEAD_S`.
    """

    def __init__(self, robot: Manipulator, lead_s: float = LEAD_S) -> None:
        self.limits = limits_of(robot)
        self._lead = lead_s * self.limits.velocity
        self._target: Array | None = None

    def release(self) -> None:
        """Drop the targets: the next step begins at the joints' positions."""
        self._target = None

    def step(self, joints: Array, velocity: Array, period_s: float) -> Array:
        """Return the targets (N, joints), rad or m, for the next period.

        A velocity of zero keeps the target, so that the arm holds its position under load.

        Args:
            joints: (N, joints) measured positions, rad or m.
            velocity: (N, joints) rad/s or m/s wanted.
            period_s: Time until the next step.

        Raises:
            ValueError: A velocity or a joint position is not finite; the targets stay.
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
