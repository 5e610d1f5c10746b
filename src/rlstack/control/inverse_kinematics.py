"""Differential inverse kinematics: from a wanted motion of the tool to a motion of the joints, within their limits.

Damped least squares (Wampler 1986; Nakamura and Hanafusa 1986), so that nothing blows up at singularities, with what
the joints would rather do in the null space. Pure functions over N robots, for numpy and torch alike, of standard
operations alone; torch exports them to ONNX.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstack.robots.kinds.manipulator import Manipulator
from rlstack.robots.kinematics import Chain, cross, library_of, tool_motion

Array = NDArray[np.float64]

DAMPING = 0.03
"""m and rad per rad: a direction in which the tool moves this much per rad of the joints is followed by half."""


class Limits(NamedTuple):
    """Of the J joints of a chain; arrays of numpy or torch."""

    lower: Any
    """(J,) rad or m."""
    upper: Any
    """(J,) rad or m."""
    velocity: Any
    """(J,) rad/s or m/s."""


def limits_of(robot: Manipulator, chain: Chain) -> Limits:
    """Return the limits of a chain's joints from the robot file."""
    drives = [robot.drives[k] for k in chain.index]
    return Limits(
        np.array([drive.lower for drive in drives]),
        np.array([drive.upper for drive in drives]),
        np.array([drive.velocity_max for drive in drives]),
    )


def joint_step(
    jacobian: Any, motion: Any, aside: Any, joints: Any, limits: Limits, period_s: float, damping: float = DAMPING
) -> Any:
    """Return the joints (N, J) after a step that moves the tool as wanted, as far as the limits allow.

    Where a joint would be too fast, all are slowed alike, so that the tool keeps its direction; one at the end of its
    range stays there.

    Args:
        jacobian: (N, 6, J), see :class:`rlstack.robots.kinematics.ToolMotion`.
        motion: (N, 6) wanted in this step: m, then rad about the axes of base_link.
        aside: (N, J) rad or m that the joints would move if the tool did not matter.
        joints: (N, J) rad or m now.
        limits: Of the joints.
        period_s: Length of the step.
        damping: See :data:`DAMPING`.
    """
    xp = library_of(joints)
    # J^T (J J^T + damping^2)^-1 (motion - J aside) + aside
    left = motion - (jacobian @ aside[:, :, None])[:, :, 0]
    weights = solve_damped(jacobian @ jacobian.swapaxes(1, 2), left, damping)
    change = (jacobian.swapaxes(1, 2) @ weights[:, :, None])[:, :, 0] + aside
    share = (xp.abs(change) / (limits.velocity * period_s)).max(1)
    share = share if xp is np else share.values
    change = change / xp.clip(share, 1.0, None)[:, None]
    return xp.minimum(xp.maximum(joints + change, limits.lower + 0.0 * joints), limits.upper + 0.0 * joints)


def solve_damped(matrix: Any, right: Any, damping: float) -> Any:
    """Return x (N, n) of ``(matrix + damping^2 unit) x = right`` for symmetric, not negative matrices (N, n, n).

    By Gauss and Jordan's elimination without pivoting, which such matrices do not need (Higham 2002, chapter 10).

    Args:
        matrix: (N, n, n).
        right: (N, n).
        damping: Added to the diagonal, squared.
    """
    xp = library_of(matrix)
    size = matrix.shape[1]
    unit = xp.eye(size) if xp is np else xp.eye(size, dtype=matrix.dtype, device=matrix.device)
    both = xp.concatenate([matrix + damping * damping * unit, right[:, :, None]], 2)
    for k in range(size):
        row = both[:, k : k + 1] / both[:, k : k + 1, k : k + 1]
        both = both + (unit[:, k : k + 1] - both[:, :, k : k + 1]) * row
    return both[:, :, size]


def upright(rotation: Any) -> Any:
    """Return the turn (N, 3) rad, about axes of base_link, that points the tool's z axis straight down.

    Its length is the sine of the angle that is missing: it corrects small errors, and vanishes upside down.
    """
    down = rotation[:, :, 2] * 0.0
    xp = library_of(rotation)
    down = xp.stack([down[:, 0], down[:, 1], down[:, 2] - 1.0], 1)
    return cross(rotation[:, :, 2], down)


def yaw_of(rotation: Any) -> Any:
    """Return cos and sin (N, 2) of the tool's yaw: where its x axis points, seen from above."""
    xp = library_of(rotation)
    x, y = rotation[:, 0, 0], rotation[:, 1, 0]
    length = xp.sqrt(x * x + y * y + 1e-12)
    return xp.stack([x / length, y / length], 1)


def reach(
    chain: Chain, limits: Limits, position: Array, yaw: Array, rest: Array, steps: int = 60
) -> tuple[Array, NDArray[np.bool_]]:
    """Return joints (N, J) that hold the tool at places, pointing down, and whether (N,) each was found.

    Args:
        chain: Base to tool.
        limits: Of its joints.
        position: (N, 3) m in base_link.
        yaw: (N,) rad of the tool's x axis seen from above.
        rest: (J,) where the search begins, and what the joints stay near.
        steps: Of Newton's method.
    """
    joints = np.repeat(np.asarray(rest, dtype=float)[None], len(position), axis=0)
    wanted = np.stack([np.cos(yaw), np.sin(yaw)], 1)
    for k in range(steps):
        tool = tool_motion(chain.screws, joints)
        motion = _missing(tool.position, tool.rotation, position, wanted)
        aside = 0.1 * (rest - joints) if k < steps // 2 else np.zeros_like(joints)
        joints = joint_step(tool.jacobian, motion, aside, joints, limits, 0.2)
    tool = tool_motion(chain.screws, joints)
    error = _missing(tool.position, tool.rotation, position, wanted)
    found = (np.abs(error).max(axis=1) < 1e-4) & (tool.rotation[:, 2, 2] < 0.0)
    return joints, np.asarray(found)


def _missing(position: Array, rotation: Array, wanted: Array, direction: Array) -> Array:
    now = yaw_of(rotation)
    sin = now[:, 0] * direction[:, 1] - now[:, 1] * direction[:, 0]
    turn = np.arctan2(sin, (now * direction).sum(axis=1))
    around = upright(rotation)
    around[:, 2] += turn
    return np.concatenate([wanted - position, around], axis=1)
