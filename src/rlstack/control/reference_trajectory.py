"""Reference trajectories of N robots, which tracking controllers follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames

WINDOW = 7
"""Number of poses that a polynomial is fitted through to take derivatives."""
SPACING_S = 0.04
"""Minimum time between two of them; closer ones would amplify rounding of the poses into jerk."""
COARSE_S = 0.2
"""Paths with a mean pose spacing above this are treated as waypoints, not as samples of a curve."""


@dataclass(frozen=True)
class Reference:
    """Reference motion of N robots at one instant; world frame.

    Args:
        position: (N, 3) m.
        velocity: (N, 3) m/s.
        acceleration: (N, 3) m/s^2.
        jerk: (N, 3) m/s^3.
        snap: (N, 3) m/s^4.
        yaw: (N,) rad.
    """

    position: Array
    velocity: Array
    acceleration: Array
    jerk: Array
    snap: Array
    yaw: Array


def rest(position: Array, yaw: Array) -> Reference:
    """Return the reference for standing still at ``position`` (N, 3) m with headings ``yaw`` (N,) rad."""
    still = np.zeros_like(position)
    return Reference(position, still, still, still, still, yaw)


def along(time_s: Array, position: Array, orientation: Array, lead_s: float = 0.0) -> Reference:
    """Return the current reference on time-stamped paths.

    The position is interpolated linearly between the two poses around now, as everywhere in rlstack; derivatives come
    from a polynomial through up to seven nearby poses. Before the first pose and after the last the reference is at
    rest. For paths with poses more than :data:`COARSE_S` apart only the velocity of the line is used.

    Args:
        time_s: (N, M) s from now, increasing along M; M >= 2.
        position: (N, M, 3) m, world.
        orientation: (N, M, 4) xyzw, body to world; only the heading is used.
        lead_s: How far ahead acceleration, jerk and snap are taken, s.
    """
    here, velocity, yaw = _on_the_line(time_s, position, orientation)
    moving = (time_s[:, 0] <= 0.0) & (time_s[:, -1] > 0.0)
    ahead = (time_s[:, 0] <= lead_s) & (time_s[:, -1] > lead_s)
    spacing = (time_s[:, -1] - time_s[:, 0]) / (time_s.shape[1] - 1)
    smooth = spacing <= COARSE_S
    if time_s.shape[1] > 2 and smooth.any():
        fitted = _derivatives(time_s, position, spacing, 0.0)[1]
        velocity = np.where(smooth[:, None], fitted, velocity)
        higher = _derivatives(time_s, position, spacing, lead_s)[2:]
    else:
        higher = np.zeros((3, *here.shape))
    acceleration, jerk, snap = np.where((smooth & ahead)[:, None], higher, 0.0)
    return Reference(here, velocity * moving[:, None], acceleration, jerk, snap, yaw)


def _on_the_line(time_s: Array, position: Array, orientation: Array) -> tuple[Array, Array, Array]:
    rows = np.arange(len(time_s))
    begin = np.clip((time_s <= 0.0).sum(axis=1) - 1, 0, time_s.shape[1] - 2)
    start, length = time_s[rows, begin], time_s[rows, begin + 1] - time_s[rows, begin]
    share = np.clip(-start / length, 0.0, 1.0)
    step = position[rows, begin + 1] - position[rows, begin]
    yaw = frames.yaw(orientation[rows, begin])
    turn = frames.wrap_angle(frames.yaw(orientation[rows, begin + 1]) - yaw)
    return position[rows, begin] + share[:, None] * step, step / length[:, None], yaw + share * turn


def _derivatives(time_s: Array, position: Array, spacing: Array, at_s: float) -> Array:
    """Return (5, N, 3): value to fourth derivative at ``at_s`` of the polynomials through the poses around it."""
    count = time_s.shape[1]
    stride = np.maximum(np.rint(SPACING_S / spacing), 1.0).astype(int)
    window = min(WINDOW, count)
    stride = np.minimum(stride, (count - 1) // (window - 1))
    nearest = (time_s <= at_s).sum(axis=1)
    first = np.clip(nearest - stride * (window // 2), 0, count - 1 - stride * (window - 1))
    index = first[:, None] + stride[:, None] * np.arange(window)
    rows = np.arange(len(time_s))[:, None]
    times, places = time_s[rows, index], position[rows, index]
    middle = np.clip(at_s, times[:, 0], times[:, -1])
    scale = (times[:, -1] - times[:, 0]) / (window - 1)
    local = (times - middle[:, None]) / scale[:, None]
    coefficients = np.linalg.solve(local[..., None] ** np.arange(window), places)
    result = np.zeros((5, len(time_s), 3))
    factorial = 1.0
    for order in range(min(window, 5)):
        factorial *= max(order, 1)
        result[order] = factorial * coefficients[:, order] / scale[:, None] ** order
    return result
