"""Optimal reciprocal collision avoidance (ORCA) of one agent, as a branch-free expression for fused kernels.

The method of van den Berg, Guy, Lin and Manocha, "Reciprocal n-body collision avoidance" (ISRR 2011): every neighbour
permits a half plane of velocities, and the agent takes the velocity in all of them that is nearest to the preferred
one, or, if there is none, the one that violates them least. The linear programs are solved incrementally, with every
``if`` as a selection, so that many agents are solved in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.fused import greater, maximum, minimum, where

_PARALLEL = 1e-5
_FAR = 1e3


@dataclass(frozen=True)
class Line:
    """The boundary of a half plane; velocities to its left are permitted.

    Args:
        x, y: A point on it, m/s.
        dx, dy: Its unit direction.
    """

    x: Any
    y: Any
    dx: Any
    dy: Any

    def broken(self, vx: Any, vy: Any) -> Any:
        """Return by how much a velocity violates the line, m/s; negative if it is permitted."""
        return self.dx * (self.y - vy) - self.dy * (self.x - vx)


def beside(me: Sequence[Any], other: Sequence[Any], horizon_s: float, period_s: float) -> Line:
    """Return the line of another agent, which shares half of the avoidance.

    Args:
        me: x, y, radius, vx, vy (m, m/s); ``other`` likewise.
        other: The other agent.
        horizon_s: Time for which velocities must be collision-free.
        period_s: Time in which overlapping agents must separate.
    """
    x, y, radius, vx, vy = me
    px, py, pvx, pvy = other[0] - x, other[1] - y, vx - other[3], vy - other[4]
    reach = radius + other[2]
    apart = px * px + py * py
    overlap = greater(reach * reach, apart)
    inverse = where(overlap, 1.0 / period_s, 1.0 / horizon_s)
    wx, wy = pvx - inverse * px, pvy - inverse * py
    length = np.sqrt(wx * wx + wy * wy + 1e-12)
    ux, uy = wx / length, wy / length
    # projection on the velocity obstacle's end cap or on one of its legs
    along = wx * px + wy * py
    cap = overlap | (greater(0.0, along) & greater(along * along, reach * reach * length * length))
    leg = np.sqrt(maximum(apart - reach * reach, 0.0))
    side = where(greater(px * wy - py * wx, 0.0), 1.0, -1.0)
    scale = side / maximum(apart, 1e-9)
    lx, ly = (px * leg - side * py * reach) * scale, (side * px * reach + py * leg) * scale
    dot = pvx * lx + pvy * ly
    push = reach * inverse - length
    cx = where(cap, push * ux, dot * lx - pvx)
    cy = where(cap, push * uy, dot * ly - pvy)
    return Line(vx + 0.5 * cx, vy + 0.5 * cy, where(cap, uy, lx), where(cap, -ux, ly))


def before(nx: Any, ny: Any, speed: Any) -> Line:
    """Return the line of a static obstacle: at most ``speed`` m/s in the direction (nx, ny)."""
    return Line(speed * nx, speed * ny, -ny, nx)


def velocity(fixed: Sequence[Line], moving: Sequence[Line], wanted: Sequence[Any], most: Any) -> tuple[Any, Any]:
    """Return the permitted velocity nearest to the preferred one.

    Args:
        fixed: Lines of static obstacles, which take precedence.
        moving: Lines that are violated as little as possible if not all can hold.
        wanted: Preferred velocity vx, vy, m/s.
        most: Greatest speed, m/s.
    """
    lines = [*fixed, *moving]
    x, y = shorter(wanted[0], wanted[1], most)
    x, y, failed = _nearest(lines, most, (x, y), towards=False)
    # from the infeasible line on, minimize the greatest violation (the third linear program)
    worst = 0.0 * x
    for i in range(len(fixed), len(lines)):
        line = lines[i]
        relaxed = [_bisector(line, other) for other in moving[: i - len(fixed)]]
        rx, ry, none = _nearest([*fixed, *relaxed], most, (-line.dy, line.dx), towards=True)
        act = failed[i] & greater(line.broken(x, y), worst)
        take = act & ~none
        x, y = where(take, rx, x), where(take, ry, y)
        worst = where(act, line.broken(x, y), worst)
    return x, y


def _nearest(lines: Sequence[Line], most: Any, wanted: tuple[Any, Any], *, towards: bool) -> tuple[Any, Any, Any]:
    """Return the velocity and whether the program became infeasible, up to each line (or the last, ``towards``)."""
    wx, wy = wanted
    x, y = (wx * most, wy * most) if towards else (wx, wy)
    failed: Any = greater(0.0 * x, 1.0)
    history = []
    for k, line in enumerate(lines):
        dot = line.x * line.dx + line.y * line.dy
        room = dot * dot + most * most - (line.x * line.x + line.y * line.y)
        none = greater(0.0, room)
        root = np.sqrt(maximum(room, 0.0))
        low, high = -dot - root, root - dot
        for other in lines[:k]:
            cross = line.dx * other.dy - line.dy * other.dx
            ahead = other.dx * (line.y - other.y) - other.dy * (line.x - other.x)
            flat = greater(_PARALLEL, np.abs(cross))
            t = ahead / where(flat, 1.0, cross)
            up = greater(cross, 0.0)
            high = where(up & ~flat, minimum(high, t), high)
            low = where(up | flat, low, maximum(low, t))
            none = none | (flat & greater(0.0, ahead))
        none = none | greater(low, high)
        if towards:
            t = where(greater(wx * line.dx + wy * line.dy, 0.0), high, low)
        else:
            t = minimum(maximum(line.dx * (wx - line.x) + line.dy * (wy - line.y), low), high)
        must = greater(line.broken(x, y), 0.0) & ~failed
        failed = failed | (must & none)
        move = must & ~none
        x, y = where(move, line.x + t * line.dx, x), where(move, line.y + t * line.dy, y)
        history.append(failed)
    return x, y, (failed if towards else history)


def _bisector(line: Line, other: Line) -> Line:
    """Return the line on which both are violated equally; to its left, ``other`` is violated less."""
    cross = line.dx * other.dy - line.dy * other.dx
    flat = greater(_PARALLEL, np.abs(cross))
    same = flat & greater(line.dx * other.dx + line.dy * other.dy, 0.0)
    t = (other.dx * (line.y - other.y) - other.dy * (line.x - other.x)) / where(flat, 1.0, cross)
    x = where(flat, 0.5 * (line.x + other.x), line.x + t * line.dx)
    y = where(flat, 0.5 * (line.y + other.y), line.y + t * line.dy)
    dx, dy = other.dx - line.dx, other.dy - line.dy
    scale = 1.0 / np.sqrt(maximum(dx * dx + dy * dy, 1e-12))
    # parallel lines of one direction: the other one is never binding
    return Line(where(same, 0.0, x), where(same, -_FAR, y), where(same, 1.0, dx * scale), where(same, 0.0, dy * scale))


def shorter(x: Any, y: Any, most: Any) -> tuple[Any, Any]:
    """Return a vector with its length clipped to ``most``."""
    share = minimum(most / np.sqrt(x * x + y * y + 1e-12), 1.0)
    return x * share, y * share
