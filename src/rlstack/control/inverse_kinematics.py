"""Differential inverse kinematics: from a tool motion to a joint motion within the limits.

Damped least squares (Wampler 1986; Nakamura and Hanafusa 1986), bounded at singularities, with a secondary joint motion
in the null space. An arm of fewer than six joints cannot reach every tool pose: position takes priority, then the
pointing direction, then the rotation about it (Siciliano and Slotine 1991). Pure functions over N robots, for numpy and
torch alike, built from standard operations that torch exports to ONNX.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.frames import cross, library_of
from rlstack.robots.kinematics import Chain, tool_motion

DAMPING = 0.03
"""m and rad per rad: motion in a direction with this singular value of the Jacobian is halved."""


ALL = 6
"""Least number of joints that reach a full tool pose."""

_KEEPING, _SECOND = 0.01, 0.3
"""Damping, as :data:`DAMPING`, of the null-space projection and of the secondary task: with little of the first and
much of the second, a tool that needs all joints to hold its position (a stretched arm) stays there."""

_NEAR_END = 0.1
"""Distance from a joint's limit, rad or m, within which motion towards it fades out."""


class Limits(NamedTuple):
    """Limits of the J joints of a chain; numpy or torch arrays."""

    lower: Any
    """(J,) rad or m."""
    upper: Any
    """(J,) rad or m."""
    velocity: Any
    """(J,) rad/s or m/s."""


def limits_of(robot: Manipulator, chain: Chain | None = None) -> Limits:
    """Return the robot file's limits of a chain's joints; None: of all joints of the robot file, in its order."""
    drives = robot.drives if chain is None else [robot.drives[k] for k in chain.index]
    return Limits(
        *(np.array([getattr(drive, what) for drive in drives]) for what in ("lower", "upper", "velocity_max"))
    )


def joint_step(
    jacobian: Any, motion: Any, aside: Any, joints: Any, limits: Limits, period_s: float, damping: float = DAMPING
) -> Any:
    """Return joint positions (N, J) after a step that moves the tool as wanted, as far as the limits allow.

    If a joint would be too fast, all are scaled alike, so that the tool keeps its direction; a joint at its limit stays
    there.

    Args:
        jacobian: (N, 6, J), see :class:`rlstack.robots.kinematics.ToolMotion`.
        motion: (N, 6) tool motion in this step: m, then rad about the axes of base_link.
        aside: (N, J) rad or m, secondary motion, projected into the null space.
        joints: (N, J) rad or m, current positions.
        limits: Joint limits.
        period_s: Length of the step.
        damping: See :data:`DAMPING`.
    """
    left = motion - (jacobian @ aside[:, :, None])[:, :, 0]
    return _limited(damped_motion(jacobian, left, damping) + aside, joints, limits, period_s)


def led_step(
    jacobian: Any, rotation: Any, motion: Any, aside: Any, joints: Any, limits: Limits, period_s: float, span_m: float
) -> Any:
    """Return joint positions (N, J) after a step that moves the tool, for any number of joints.

    With :data:`ALL` joints or more it is :func:`joint_step`. With fewer, the tool's position takes priority, then the
    direction of its z axis, then the rotation about it. Motion of a joint towards its limit fades out, and the others
    compensate as far as they can.

    Args:
        jacobian: (N, 6, J), see :class:`rlstack.robots.kinematics.ToolMotion`.
        rotation: (N, 3, 3) of the tool.
        motion: (N, 6) tool motion in this step: m, then rad about the axes of base_link.
        aside: (N, J) rad or m, secondary motion, projected into the null space.
        joints: (N, J) rad or m, current positions.
        limits: Joint limits.
        period_s: Length of the step.
        span_m: Length of the arm, see :func:`span_of`; scales :data:`DAMPING` of positions.
    """
    if joints.shape[1] >= ALL:
        return joint_step(jacobian, motion, aside, joints, limits, period_s)
    xp = library_of(joints)
    along = rotation[:, :, 2:]  # (N, 3, 1)
    linear, angular = jacobian[:, :3] / span_m, jacobian[:, 3:]
    turn = motion[:, 3:, None]
    about, wanted_about = along.swapaxes(1, 2) @ angular, along.swapaxes(1, 2) @ turn
    ordered = (
        (linear, motion[:, :3, None] / span_m, DAMPING),
        (angular - along @ about, turn - along @ wanted_about, _SECOND),
        (about, wanted_about, _SECOND),
    )
    change = _in_order(ordered, aside, 0.0 * joints + 1.0)
    # an even function of the joint's motion, and zero where that changes sign
    ahead = xp.where(change > 0.0, limits.upper - joints, joints - limits.lower)
    change = _in_order(ordered, aside, xp.clip(ahead / _NEAR_END, 0.0, 1.0))
    return _limited(change, joints, limits, period_s)


def span_of(chain: Chain) -> float:
    """Return the length of an arm from its first joint to its tool, m, along its joints."""
    screws = chain.screws
    places = np.concatenate([screws.marks[:, :3, 2], screws.tool[None, :3, 3]])
    return float(np.linalg.norm(np.diff(places, axis=0), axis=1).sum())


def _in_order(ordered: Any, aside: Any, share: Any) -> Any:
    """Return motions (N, J) for prioritized tasks, each in the null space of those before it.

    Args:
        ordered: For each task its Jacobian (N, n, J), its motion (N, n, 1), and its damping.
        aside: (N, J) secondary motion, with the lowest priority.
        share: (N, J) weight of each joint, 0 to 1.
    """
    unit = _unit(aside, aside.shape[1])
    scale = share[:, None, :]
    change, free = 0.0 * aside[:, :, None], unit + 0.0 * scale
    for rows, wanted, damping in ordered:
        rows = rows * scale
        left = rows @ free
        back = left.swapaxes(1, 2)
        square = left @ back
        change = change + back @ _eliminate(square, wanted - rows @ change, damping)
        free = free - back @ _eliminate(square, left, _KEEPING)
    change = change + free @ aside[:, :, None]
    return share * change[:, :, 0]


def _limited(change: Any, joints: Any, limits: Limits, period_s: float) -> Any:
    xp = library_of(joints)
    share = (xp.abs(change) / (limits.velocity * period_s)).max(1)
    share = share if xp is np else share.values
    change = change / xp.clip(share, 1.0, None)[:, None]
    return xp.minimum(xp.maximum(joints + change, limits.lower + 0.0 * joints), limits.upper + 0.0 * joints)


def damped_motion(jacobian: Any, motion: Any, damping: float) -> Any:
    """Return the joint motion (N, J) ``J^T (J J^T + damping^2 unit)^-1 motion``.

    The matrix is not formed, since its condition number is the square of the Jacobian's: near a singularity float32
    would keep three digits. Instead the columns of ``[J^T; damping unit]`` are made orthogonal by modified
    Gram-Schmidt, and the shortest solution is built up from the last one to the first, which keeps the errors at those
    of the Jacobian (Björck, Numerical Methods for Least Squares Problems, 1996, section 2.4).

    Args:
        jacobian: (N, n, J).
        motion: (N, n).
        damping: See :data:`DAMPING`.
    """
    size, xp = jacobian.shape[1], library_of(jacobian)
    unit = damping * _unit(jacobian, size) + 0.0 * jacobian[:, :, :1]
    columns, wanted = xp.concatenate([jacobian.swapaxes(1, 2), unit], 1), motion[:, None, :]
    axes, lengths = [], []
    for k in range(size):
        column = columns[:, :, k : k + 1]
        norm = xp.sqrt((column * column).sum(1))[:, None, :]
        axis, length = column / norm, wanted[:, :, k : k + 1] / norm
        shares = axis.swapaxes(1, 2) @ columns
        columns, wanted = columns - axis * shares, wanted - length * shares
        axes.append(axis)
        lengths.append(length)
    found = axes[-1] * lengths[-1]
    for axis, length in zip(axes[-2::-1], lengths[-2::-1]):
        found = found + axis * (length - axis.swapaxes(1, 2) @ found)
    return found[:, : jacobian.shape[2], 0]


def _eliminate(matrix: Any, right: Any, damping: float) -> Any:
    """Return X (N, n, m) of ``(matrix + damping^2 unit) X = right``.

    Gauss-Jordan elimination without pivoting, which such matrices do not need (Higham 2002, chapter 10).
    """
    size = matrix.shape[1]
    unit = _unit(matrix, size)
    both = library_of(matrix).concatenate([matrix + damping * damping * unit, right], 2)
    for k in range(size):
        row = both[:, k : k + 1] / both[:, k : k + 1, k : k + 1]
        both = both + (unit[:, k : k + 1] - both[:, :, k : k + 1]) * row
    return both[:, :, size:]


def _unit(like: Any, size: int) -> Any:
    xp = library_of(like)
    return xp.eye(size) if xp is np else xp.eye(size, dtype=like.dtype, device=like.device)


def upright(rotation: Any) -> Any:
    """Return the rotation (N, 3) rad, about axes of base_link, that points the tool's z axis straight down.

    Its length is the sine of the remaining angle: it corrects small errors, and vanishes upside down.
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
    """Return joint positions (N, J) that hold the tool at positions, pointing down, and whether (N,) each was found.

    An arm of fewer than :data:`ALL` joints need only reach the position, to 5 mm; its direction and yaw are as close as
    it can get there.

    Args:
        chain: Base to tool.
        limits: Joint limits.
        position: (N, 3) m in base_link.
        yaw: (N,) rad of the tool's x axis seen from above.
        rest: (J,) where the search begins, and what the joints stay near.
        steps: Iterations of Newton's method.
    """
    joints = np.repeat(np.asarray(rest, dtype=float)[None], len(position), axis=0)
    wanted, span = np.stack([np.cos(yaw), np.sin(yaw)], 1), span_of(chain)
    for k in range(steps):
        tool = tool_motion(chain.screws, joints)
        motion = _missing(tool.position, tool.rotation, position, wanted)
        if joints.shape[1] < ALL:  # long steps would not converge: the full pose is out of reach
            bound = 0.1 * np.array([span, span, span, 1.0, 1.0, 1.0])
            motion = np.clip(motion, -bound, bound)
        aside = 0.1 * (rest - joints) if k < steps // 2 else np.zeros_like(joints)
        joints = led_step(tool.jacobian, tool.rotation, motion, aside, joints, limits, 0.2, span)
    tool = tool_motion(chain.screws, joints)
    error = _missing(tool.position, tool.rotation, position, wanted)
    if len(chain.joints) < ALL:  # the direction is only a preference, and biases the position
        error = 0.02 * error[:, :3]
    found = (np.abs(error).max(axis=1) < 1e-4) & (tool.rotation[:, 2, 2] < 0.0)
    return joints, np.asarray(found)


def _missing(position: Array, rotation: Array, wanted: Array, direction: Array) -> Array:
    now = yaw_of(rotation)
    sin = now[:, 0] * direction[:, 1] - now[:, 1] * direction[:, 0]
    turn = np.arctan2(sin, (now * direction).sum(axis=1))
    around = upright(rotation)
    around[:, 2] += turn
    return np.concatenate([wanted - position, around], axis=1)
