"""A robot among people: optimal reciprocal collision avoidance, with the scan's points as half planes.

J. van den Berg et al., "Reciprocal n-body collision avoidance", ISRR 2011. A base that cannot go sideways is steered as
a point ahead of its axle that can (J. Snape et al., "Smooth and collision-free navigation for multiple robots under
differential-drive constraints", IROS 2010): the disc around that point is as large as it must be to hold the footprint.
What stands still does not make way, so it gets a half plane before its nearest point in each direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.planner_interface import People
from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.sim.crowds.orca import beside


@dataclass(frozen=True, kw_only=True)
class OrcaSettings:
    """Horizons and distances; those of people are PeopleNav's (arXiv 1809.08835, its public source)."""

    horizon_s: float = value(5.0, unit="s", above=0.0)
    """Time for which velocities must be safe among people."""
    fixed_horizon_s: float = value(1.5, unit="s", above=0.0)
    """The same for static obstacles."""
    share: float = value(0.5, above=0.0, at_most=1.0)
    """Share of the avoidance that the robot takes; people take the rest."""
    margin_m: float = value(0.01, unit="m", at_least=0.0)
    """Added to the robot's radius."""
    directions: int = value(16, at_least=1)
    """In each of as many sectors, the nearest point of the scan is avoided."""
    offset_m: float | None = value(None, unit="m", above=0.0)
    """Distance from the axle to the point that steers a differential base; default: half its reach."""


class Orca:
    """Chooses commands for N robots at once.

    Args:
        body: The base: differential or holonomic.
        settings: Horizons.
        period_s: Control period, s.

    Raises:
        UserError: The base is an Ackermann one.
    """

    def __init__(self, body: BaseModel, settings: OrcaSettings, period_s: float) -> None:
        if body.drive == "ackermann":
            raise UserError(
                f"ORCA needs a base that turns on the spot, and {body.name} does not: choose the planner dwa or"
                " astar_dwa."
            )
        self.body, self.settings, self.period_s = body, settings, period_s
        self.offset = 0.0 if body.drive == "holonomic" else settings.offset_m or 0.5 * body.reach_m
        reach = max(math.hypot(x - self.offset, y) + radius for x, y, radius in body.discs)
        self.radius = reach + settings.margin_m
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Reset the last commands, for ``batch`` robots."""
        self.last = np.zeros((batch, 2))

    def choose(
        self,
        target: Array,
        points: Array,
        hit: NDArray[np.bool_],
        *,
        fastest: Array,
        backing: NDArray[np.bool_],
        crowd: People | None = None,
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return commands (N, 2), m/s and rad/s, or (N, 3) of a holonomic base, and that all are good (N,).

        The arguments are those of :meth:`rlstack.control.navigation.dwa.DynamicWindow.choose`.
        """
        body, ahead = self.body, np.array([self.offset, 0.0])
        towards = target - ahead
        away = np.linalg.norm(towards, axis=1)
        speed = np.minimum(np.maximum(fastest, 0.25 * body.speed_m_s), away / self.period_s)
        wanted = towards * (np.minimum(speed, body.speed_m_s) / np.maximum(away, 1e-9))[:, None]
        lines, directions = self._before(points - ahead, hit)
        fixed = lines.shape[1]
        if crowd is not None:
            moving = self._beside(crowd, ahead)
            lines = np.concatenate((lines, moving[0]), axis=1)
            directions = np.concatenate((directions, moving[1]), axis=1)
        most = np.full(len(target), body.speed_m_s)
        chosen = nearest_velocity(lines, directions, fixed, wanted, most)
        if body.drive == "holonomic":
            self.last = chosen
            return np.column_stack((chosen, np.zeros(len(chosen)))), np.ones(len(chosen), dtype=bool)
        turning = np.clip(chosen[:, 1] / self.offset, -body.turning_rad_s, body.turning_rad_s)
        self.last = np.column_stack((chosen[:, 0], turning * self.offset))
        return np.column_stack((chosen[:, 0], turning)), np.ones(len(chosen), dtype=bool)

    def _beside(self, crowd: People, ahead: Array) -> tuple[Array, Array]:
        """Return a line for each person: points on them (N, people, 2) and their directions."""
        zero = np.zeros(crowd.radius.shape)
        vx, vy = self.last[:, :1] + zero, self.last[:, 1:] + zero
        x, y = np.moveaxis(crowd.position - ahead, -1, 0)
        me = (zero, zero, self.radius + zero, vx, vy)
        line = beside(
            me, (x, y, crowd.radius, *np.moveaxis(crowd.velocity, -1, 0)), self.settings.horizon_s, self.period_s
        )
        # the line stands at half of the change that is needed
        share = 2.0 * self.settings.share
        points = np.stack((vx + share * (line.x - vx), vy + share * (line.y - vy)), axis=-1)
        return points, np.stack((line.dx, line.dy), axis=-1)

    def _before(self, points: Array, hit: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return a line before the nearest point in each direction."""
        count, sectors = len(points), self.settings.directions
        away = np.where(hit, np.linalg.norm(points, axis=2), np.inf)
        sector = np.floor(np.arctan2(points[..., 1], points[..., 0]) / (2.0 * math.pi) * sectors).astype(int) % sectors
        normal, gap = np.zeros((count, sectors, 2)), np.full((count, sectors), 1e3)
        rows = np.arange(count)
        for k in range(sectors if points.shape[1] else 0):
            mine = np.where(sector == k, away, np.inf)
            nearest = mine.argmin(axis=1)
            near = mine[rows, nearest]
            seen = np.isfinite(near)
            gap[:, k] = np.where(seen, near - self.radius, 1e3)
            unit = points[rows, nearest] / np.maximum(near, 1e-9)[:, None]
            normal[:, k] = np.where(seen[:, None], unit, [1.0, 0.0])
        normal[..., 0] = np.where((normal == 0.0).all(axis=-1), 1.0, normal[..., 0])
        # leave an overlap at a fraction of full speed, or every other line would be given up
        approach = np.maximum(gap / self.settings.fixed_horizon_s, -0.3 * self.body.speed_m_s)
        return approach[..., None] * normal, np.stack((-normal[..., 1], normal[..., 0]), axis=-1)


_PARALLEL = 1e-5


def nearest_velocity(points: Array, directions: Array, fixed: int, wanted: Array, most: Array) -> Array:
    """Return velocities (N, 2) m/s; where not all lines can hold, one that breaks the moving ones least.

    Args:
        points: (N, lines, 2) m/s: on each line.
        directions: (N, lines, 2), of length 1; what is to the left is allowed.
        fixed: Number of first lines that must hold where they can, and are never traded against others.
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
