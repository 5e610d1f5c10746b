"""Differential inverse kinematics: from a wanted motion of the tool to a motion of the joints, within their limits.

Damped least squares (Wampler 1986; Nakamura and Hanafusa 1986), so that nothing blows up at singularities, with what
the joints would rather do in the null space. An arm of fewer than six joints cannot have place and direction of its
tool at once: it has the place first, then where the tool points, then its turn (Siciliano and Slotine 1991). Pure
functions over N robots, for numpy and torch alike, of standard operations alone; torch exports them to ONNX.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import Chain, cross, library_of, tool_motion

DAMPING = 0.03
"""m and rad per rad: a direction in which the tool moves this much per rad of the joints is followed by half."""


ALL = 6
"""Joints from which on a tool's place, direction and turn can all be asked for at once."""

_KEEPING, _SECOND = 0.01, 0.3
"""Damping, as :data:`DAMPING`, of what must not disturb what comes before it, and of what comes second: with little of
the first and much of the second a tool whose place takes all joints, as where the arm is stretched, stays there."""

_NEAR_END = 0.1
"""rad or m from the end of its range where a joint that is driven there begins to be left out."""


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
    # J^T (J J^T + damping^2)^-1 (motion - J aside) + aside
    left = motion - (jacobian @ aside[:, :, None])[:, :, 0]
    weights = solve_damped(jacobian @ jacobian.swapaxes(1, 2), left, damping)
    change = (jacobian.swapaxes(1, 2) @ weights[:, :, None])[:, :, 0] + aside
    return _limited(change, joints, limits, period_s)


def led_step(
    jacobian: Any, rotation: Any, motion: Any, aside: Any, joints: Any, limits: Limits, period_s: float, span_m: float
) -> Any:
    """Return the joints (N, J) after a step that leads the tool, with whatever number of joints the arm has.

    From :data:`ALL` joints on it is :func:`joint_step`. With fewer the tool's place comes first; what the joints can do
    beside turns the tool's z axis as wanted, and what is left then turns the tool about it. A joint that nears the end
    of its range is left out little by little, and the others make up for it as far as they can.

    Args:
        jacobian: (N, 6, J), see :class:`rlstack.robots.kinematics.ToolMotion`.
        rotation: (N, 3, 3) of the tool.
        motion: (N, 6) wanted in this step: m, then rad about the axes of base_link.
        aside: (N, J) rad or m that the joints would move if the tool did not matter.
        joints: (N, J) rad or m now.
        limits: Of the joints.
        period_s: Length of the step.
        span_m: Of the arm, see :func:`span_of`: :data:`DAMPING` of places is of it.
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
    # what it does is even where a joint turns round: there it does not move
    ahead = xp.where(change > 0.0, limits.upper - joints, joints - limits.lower)
    change = _in_order(ordered, aside, xp.clip(ahead / _NEAR_END, 0.0, 1.0))
    return _limited(change, joints, limits, period_s)


def span_of(chain: Chain) -> float:
    """Return how long an arm is from its first joint to its tool, m, along its joints."""
    screws = chain.screws
    places = np.concatenate([screws.marks[:, :3, 2], screws.tool[None, :3, 3]])
    return float(np.linalg.norm(np.diff(places, axis=0), axis=1).sum())


def _in_order(ordered: Any, aside: Any, share: Any) -> Any:
    """Return motions (N, J) that do each of some things as far as those before it leave room, and last what is aside.

    Args:
        ordered: Of each thing its rows (N, n, J), what they are to give, (N, n, 1), and its damping.
        aside: (N, J).
        share: (N, J) of each joint that counts.
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


def solve_damped(matrix: Any, right: Any, damping: float) -> Any:
    """Return x (N, n) of ``(matrix + damping^2 unit) x = right`` for symmetric, not negative matrices (N, n, n).

    Args:
        matrix: (N, n, n).
        right: (N, n).
        damping: Added to the diagonal, squared.
    """
    return _eliminate(matrix, right[:, :, None], damping)[:, :, 0]


def _eliminate(matrix: Any, right: Any, damping: float) -> Any:
    """Return X (N, n, m) of ``(matrix + damping^2 unit) X = right``.

    By Gauss and Jordan's elimination without pivoting, which such matrices do not need (Higham 2002, chapter 10).
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

    An arm of fewer than :data:`ALL` joints need only be at the place, to 5 mm: it points as far down, and is as far
    turned, as it can be there.

    Args:
        chain: Base to tool.
        limits: Of its joints.
        position: (N, 3) m in base_link.
        yaw: (N,) rad of the tool's x axis seen from above.
        rest: (J,) where the search begins, and what the joints stay near.
        steps: Of Newton's method.
    """
    joints = np.repeat(np.asarray(rest, dtype=float)[None], len(position), axis=0)
    wanted, span = np.stack([np.cos(yaw), np.sin(yaw)], 1), span_of(chain)
    for k in range(steps):
        tool = tool_motion(chain.screws, joints)
        motion = _missing(tool.position, tool.rotation, position, wanted)
        if joints.shape[1] < ALL:  # far ones lead nowhere, since all of them cannot be had
            bound = 0.1 * np.array([span, span, span, 1.0, 1.0, 1.0])
            motion = np.clip(motion, -bound, bound)
        aside = 0.1 * (rest - joints) if k < steps // 2 else np.zeros_like(joints)
        joints = led_step(tool.jacobian, tool.rotation, motion, aside, joints, limits, 0.2, span)
    tool = tool_motion(chain.screws, joints)
    error = _missing(tool.position, tool.rotation, position, wanted)
    if len(chain.joints) < ALL:  # where it would rather point down, it is as much off
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
