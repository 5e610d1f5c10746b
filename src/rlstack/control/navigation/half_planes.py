"""The velocity nearest to a wanted one that keeps to half planes, for N robots at once, in numpy with early ends.

The incremental linear programs of J. van den Berg, S. Guy, M. Lin, D. Manocha, "Reciprocal n-body collision avoidance",
ISRR 2011. What :func:`rlstack.sim.bases.orca.velocity` is for walkers in a fused kernel, this is for few robots with
many lines: robots whose velocity already keeps to a line cost nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array

_PARALLEL = 1e-5


def nearest_velocity(points: Array, directions: Array, fixed: int, wanted: Array, most: Array) -> Array:
    """Return velocities (N, 2) m/s; where not all lines can hold, one that breaks the moving ones least.

    Args:
        points: (N, lines, 2) m/s: on each line.
        directions: (N, lines, 2), of length 1; what is to the left is allowed.
        fixed: How many of the first lines must hold where they can, and are never traded against others.
        wanted: (N, 2) m/s.
        most: (N,) m/s: greatest speed.
    """
    speed = np.linalg.norm(wanted, axis=1)
    start = wanted * np.minimum(1.0, most / np.maximum(speed, 1e-12))[:, None]
    found, failed = _program(points, directions, most, start, towards=False)
    lost = np.flatnonzero(failed < points.shape[1])
    if len(lost):
        found[lost] = _least_broken(points[lost], directions[lost], fixed, most[lost], found[lost], failed[lost])
    return found


def _broken(point: Array, direction: Array, velocity: Array) -> Array:
    return np.asarray(
        direction[..., 0] * (point[..., 1] - velocity[..., 1]) - direction[..., 1] * (point[..., 0] - velocity[..., 0])
    )


def _program(
    points: Array, directions: Array, most: Array, wanted: Array, *, towards: bool
) -> tuple[Array, NDArray[np.intp]]:
    """Return the velocity (N, 2) and the number of the first line that could not hold (N,).

    ``towards``: ``wanted`` is a direction to go as far as possible in, not a velocity to be near to.
    """
    lines = points.shape[1]
    found = wanted * most[:, None] if towards else wanted.copy()
    failed = np.full(len(points), lines, dtype=np.intp)
    for k in range(lines):
        must = (failed == lines) & (_broken(points[:, k], directions[:, k], found) > 0.0)
        rows = np.flatnonzero(must)
        if not len(rows):
            continue
        line, direction, radius = points[rows, k], directions[rows, k], most[rows]
        dot = (line * direction).sum(axis=1)
        room = dot * dot + radius * radius - (line * line).sum(axis=1)
        none = room < 0.0
        root = np.sqrt(np.maximum(room, 0.0))
        low, high = -dot - root, root - dot
        if k:
            before, heads = points[rows, :k], directions[rows, :k]
            cross = direction[:, None, 0] * heads[..., 1] - direction[:, None, 1] * heads[..., 0]
            ahead = heads[..., 0] * (line[:, None, 1] - before[..., 1]) - heads[..., 1] * (
                line[:, None, 0] - before[..., 0]
            )
            flat = np.abs(cross) <= _PARALLEL
            t = ahead / np.where(flat, 1.0, cross)
            up = cross >= 0.0
            high = np.minimum(high, np.where(up & ~flat, t, np.inf).min(axis=1))
            low = np.maximum(low, np.where(~up & ~flat, t, -np.inf).max(axis=1))
            none |= (flat & (ahead < 0.0)).any(axis=1)
        none |= low > high
        if towards:
            t = np.where((wanted[rows] * direction).sum(axis=1) > 0.0, high, low)
        else:
            t = np.clip((direction * (wanted[rows] - line)).sum(axis=1), low, np.maximum(low, high))
        failed[rows[none]] = k
        moves = rows[~none]
        found[moves] = line[~none] + t[~none, None] * direction[~none]
    return found, failed


def _least_broken(
    points: Array, directions: Array, fixed: int, most: Array, found: Array, failed: NDArray[np.intp]
) -> Array:
    worst, found = np.zeros(len(points)), found.copy()
    for k in range(fixed, points.shape[1]):
        line, direction = points[:, k], directions[:, k]
        rows = np.flatnonzero((k >= failed) & (_broken(line, direction, found) > worst))
        if not len(rows):
            continue
        bisectors = _bisectors(line[rows], direction[rows], points[rows, fixed:k], directions[rows, fixed:k])
        into = np.stack((-direction[rows, 1], direction[rows, 0]), axis=1)
        velocity, none = _program(
            np.concatenate((points[rows, :fixed], bisectors[0]), axis=1),
            np.concatenate((directions[rows, :fixed], bisectors[1]), axis=1),
            most[rows],
            into,
            towards=True,
        )
        good = none == k
        found[rows[good]] = velocity[good]
        worst[rows] = _broken(line[rows], direction[rows], found[rows])
    return found


def _bisectors(line: Array, direction: Array, points: Array, directions: Array) -> tuple[Array, Array]:
    """Return the lines (n, k, 2) along which a line and each of others (n, k, 2) are broken by as much."""
    line, direction = line[:, None], direction[:, None]
    cross = direction[..., 0] * directions[..., 1] - direction[..., 1] * directions[..., 0]
    flat = np.abs(cross) <= _PARALLEL
    same = flat & ((direction * directions).sum(axis=-1) > 0.0)
    ahead = directions[..., 0] * (line[..., 1] - points[..., 1]) - directions[..., 1] * (line[..., 0] - points[..., 0])
    t = ahead / np.where(flat, 1.0, cross)
    middle = np.where(flat[..., None], 0.5 * (line + points), line + t[..., None] * direction)
    along = directions - direction
    along = along / np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), 1e-12)
    # one of the same direction is never in the way
    middle = np.where(same[..., None], [0.0, -1e6], middle)
    return middle, np.where(same[..., None], [1.0, 0.0], along)
