"""The dynamic window approach: of many commands, the one whose simulated trajectory is best.

After D. Fox, W. Burgard, S. Thrun, "The Dynamic Window Approach to Collision Avoidance", IEEE Robotics and Automation
Magazine 1997: commands that cannot stop before what they would hit are not admissible, the others are weighed by
heading, clearance and speed. As in B. Gerkey, K. Konolige, "Planning and Control in Unstructured Terrain", ICRA 2008,
trajectories are simulated over some seconds, ramping from the present velocity as the base's acceleration allows.
People are predicted at constant velocity along each trajectory (velocity obstacles: P. Fiorini, Z. Shiller 1998).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Array32
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.planner_interface import People
from rlstack.libraries import import_library
from rlstack.schema import value

_FAR_M = 1e3
"""Coordinate of the nearest point where there is none."""


class ScanDistance:
    """Distances to the nearest scanned point around N robots: one small grid each, in ``base_link``.

    Each cell keeps the scanned point nearest to it, so distances are those to points, not to cells.

    Args:
        reach_m: Half the side of the grids: places farther out get the distance at the rim.
        cell_m: Side of a cell.
    """

    def __init__(self, reach_m: float, cell_m: float) -> None:
        self._transform = import_library("scipy.ndimage", "navigation").distance_transform_edt
        self._side = 2 * int(np.ceil(reach_m / cell_m)) + 1
        self._scale = np.float32(1.0 / cell_m)
        self._offset = np.float32(0.5 * self._side)

    def set(self, points: Array, hit: NDArray[np.bool_]) -> None:
        """Set the scanned points (N, points, 2) m in ``base_link``, and which are valid (N, points)."""
        count, side = len(points), self._side
        self._x = np.full((count, side, side), _FAR_M, dtype=np.float32)
        self._y = np.full((count, side, side), _FAR_M, dtype=np.float32)
        cells = np.floor(points * self._scale + self._offset)
        inside = hit & ((cells >= 0) & (cells < side)).all(axis=-1)
        for n in np.flatnonzero(inside.any(axis=1)):
            mine = points[n, inside[n]]
            column, row = cells[n, inside[n]].astype(np.intp).T
            owner = np.full((side, side), -1, dtype=np.intp)
            owner[row, column] = np.arange(len(mine))
            nearest = self._transform(owner < 0, return_distances=False, return_indices=True)
            near = mine[owner[nearest[0], nearest[1]]].astype(np.float32)
            self._x[n], self._y[n] = near[..., 0], near[..., 1]

    def distance(self, robots: NDArray[np.intp], x: Array32, y: Array32) -> Array32:
        """Return the distance (n, ...) in m from places (n, ...) m around some robots (n,) to the nearest point."""
        side, last = self._side, np.float32(self._side - 1)
        column = np.clip(x * self._scale + self._offset, 0, last).astype(np.int32)
        row = np.clip(y * self._scale + self._offset, 0, last).astype(np.int32)
        first = (side * side * robots.astype(np.int32)).reshape(-1, *(1,) * (x.ndim - 1))
        cell = first + row * np.int32(side) + column
        dx, dy = self._x.reshape(-1)[cell] - x, self._y.reshape(-1)[cell] - y
        return np.asarray(np.sqrt(dx * dx + dy * dy), dtype=np.float32)


_AT_ONCE = 16
"""Robots processed at a time, so that their arrays stay in the cache."""


@dataclass(frozen=True, kw_only=True)
class DwaSettings:
    """Candidate commands, horizon, and weights of the trajectories' costs.

    ``benchmarks/tune_planners.py`` tunes them, with those of the path, on training maps.
    """

    horizon_s: float = value(1.65, unit="s", above=0.0)
    steps: int = value(10, at_least=2)
    """Poses checked along a trajectory."""
    speeds: int = value(9, at_least=2)
    turns: int = value(21, at_least=3)
    """Numbers of candidate speeds and turning rates; turning rates are denser around 0."""
    goal: float = value(1.9, at_least=0.0)
    """Weight of the remaining distance to the target, relative to the distance driven within the horizon."""
    heading: float = value(0.8, at_least=0.0)
    """Weight of the angle to the target at the end, over a half turn."""
    clearance: float = value(0.16, at_least=0.0)
    """Weight of being nearer to obstacles than ``safe``: squared, mean over the trajectory."""
    safe: float = value(0.8, unit="radii of the base", above=0.0)
    collision: float = value(1.8, at_least=0.0)
    """Weight of a collision later than it takes to stop, by how soon it is."""
    speed: float = value(0.87, at_least=0.0)
    """Weight of driving below full speed."""
    smooth: float = value(0.043, at_least=0.0)
    """Weight of changing the turning rate."""
    margin: float = value(0.47, unit="radii of the base", at_least=0.0)
    """Clearance from obstacles; the radius is that of its largest disc."""
    people_margin_m: float = value(0.1, unit="m", at_least=0.0)
    """Clearance from predicted people."""


class DynamicWindow:
    """Chooses commands for N robots at once; its only state is the last choice.

    Args:
        body: The base.
        settings: Weights.
        period_s: Control period, s.
    """

    def __init__(self, body: BaseModel, settings: DwaSettings, period_s: float) -> None:
        self.body, self.settings, self.period_s = body, settings, period_s
        reach = body.speed_m_s * settings.horizon_s + body.reach_m + settings.safe * body.radius_m
        self.around = ScanDistance(reach, max(0.3 * body.radius_m, reach / 40.0))
        self._dt = settings.horizon_s / settings.steps
        self._forward = _candidates(body, settings, 0.0, body.speed_m_s)
        self._backward = _candidates(body, settings, -0.5 * body.speed_m_s, 0.0)
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
        """Return commands (N, 2), m/s and rad/s, and whether any was admissible (N,); if none is, the robot stops.

        Args:
            target: (N, 2) m in ``base_link``.
            points: (N, points, 2) m in ``base_link``, from the scan.
            hit: (N, points), which of them are valid.
            fastest: (N,) m/s, speed limit.
            backing: (N,), robots that back up.
            crowd: People, in the base's frame; None: there are none.
        """
        self.around.set(points, hit)
        found, good = np.empty((len(target), 2)), np.empty(len(target), dtype=bool)
        for table, robots in ((self._forward, ~backing), (self._backward, backing)):
            numbers = np.flatnonzero(robots)
            for first in range(0, len(numbers), _AT_ONCE):
                some = numbers[first : first + _AT_ONCE]
                some_crowd = None if crowd is None else People(*(a[some] for a in vars(crowd).values()))
                found[some], good[some] = self._best(table, some, target[some], fastest[some], some_crowd)
        self.last = found
        return found, good

    def _best(
        self, table: Array32, some: NDArray[np.intp], target: Array, fastest: Array, crowd: People | None
    ) -> tuple[Array, NDArray[np.bool_]]:
        s, body, dt = self.settings, self.body, np.float32(self._dt)
        last = self.last[some].astype(np.float32)
        x, y, heading = self._trajectories(table, last)

        gap = self._gap(some, x, y, heading)  # (n, candidates, steps)
        start = self._gap(some, *(np.zeros((len(some), 1, 1), dtype=np.float32),) * 3)
        # a robot already within the margin may slide along, a little closer at most, and never touch
        margin = np.float32(s.margin * body.radius_m)
        wide = np.minimum(margin, np.maximum(start - np.float32(0.25) * margin, np.minimum(start, 0.4 * margin)))
        touch = gap < wide
        if crowd is not None:
            apart = self._apart(crowd, x, y, heading)
            touch |= apart < np.float32(s.people_margin_m)
            gap = np.minimum(gap, apart)
        collides = touch.any(axis=2)
        step = np.where(collides, touch.argmax(axis=2), s.steps)
        until = step * dt  # the last pose without a touch is known to be this late

        stopping = self.period_s + body.slowest_s + np.abs(table[:, 0]) / np.float32(body.acceleration_m_s2)
        admissible = until >= np.minimum(stopping, s.horizon_s)
        admissible &= table[:, 0] <= fastest[:, None] + 1e-6
        still = (table[:, 0] == 0.0) & (table[:, 1] == 0.0)
        admissible &= ~still

        end = np.maximum(step - 1, 0)[..., None]
        ex, ey, eh = (np.take_along_axis(a, end, axis=2)[..., 0] for a in (x, y, heading))
        tx, ty = (target[:, k, None].astype(np.float32) for k in (0, 1))
        reach = np.float32(body.speed_m_s * s.horizon_s)
        left = np.hypot(tx - ex, ty - ey)
        away, turn = np.arctan2(ty - ey, tx - ex) - eh, np.float32(2.0 * math.pi)
        away = (away - turn * np.rint(away / turn)) * (left > 0.25 * reach)
        near = np.maximum(1.0 - gap / np.float32(s.safe * body.radius_m), 0.0)
        cost = (
            np.float32(s.goal / float(reach)) * left
            + np.float32(0.0 if table is self._backward else s.heading / math.pi) * np.abs(away)
            + np.float32(s.clearance) * (near * near).mean(axis=2)
            + np.float32(s.collision) * (1.0 - until / np.float32(s.horizon_s))
            + np.float32(s.speed) * (1.0 - np.abs(table[:, 0]) / np.float32(body.speed_m_s))
            + np.float32(s.smooth / (2.0 * body.turning_rad_s)) * np.abs(table[:, 1] - last[:, 1:])
        )
        cost = np.where(admissible, cost, np.float32(np.inf))
        best, rows = cost.argmin(axis=1), np.arange(len(some))
        good = np.isfinite(cost[rows, best])
        # command the first step of the ramp towards the candidate; stop where none is admissible
        wanted = np.where(good[:, None], table[best], np.float32(0.0))
        step_v, step_w = self.period_s * body.acceleration_m_s2, self.period_s * body.angular_acceleration_rad_s2
        change = np.clip(wanted - last, [-step_v, -step_w], [step_v, step_w])
        return (last + change).astype(float), good

    def _trajectories(self, table: Array32, last: Array32) -> tuple[Array32, Array32, Array32]:
        """Return x, y and heading (n, candidates, steps) of the candidates' trajectories."""
        body, dt = self.body, np.float32(self._dt)
        middles = (np.arange(self.settings.steps, dtype=np.float32) + np.float32(0.5)) * dt
        lag = np.maximum(middles - np.float32(body.delay_s), 0.0)
        v0, w0 = last[:, 0, None, None], last[:, 1, None, None]
        dv, dw = np.float32(body.acceleration_m_s2) * lag, np.float32(body.angular_acceleration_rad_s2) * lag
        speed = v0 + np.clip(table[:, 0, None] - v0, -dv, dv)
        turn = w0 + np.clip(table[:, 1, None] - w0, -dw, dw)
        after = np.cumsum(turn, axis=2) * dt
        middle = after - 0.5 * turn * dt
        x = np.cumsum(speed * np.cos(middle), axis=2) * dt
        y = np.cumsum(speed * np.sin(middle), axis=2) * dt
        return x, y, after

    def _gap(self, some: NDArray[np.intp], x: Array32, y: Array32, heading: Array32) -> Array32:
        """Return the distance (n, candidates, steps), m, from the base's discs to the scan's points."""
        cos, sin = np.cos(heading), np.sin(heading)
        least: Any = np.float32(np.inf)
        for dx, dy, radius in self.body.discs:
            at_x, at_y = _shifted(x, y, cos, sin, dx, dy)
            least = np.minimum(least, self.around.distance(some, at_x, at_y) - np.float32(radius))
        return np.asarray(least)

    def _apart(self, crowd: People, x: Array32, y: Array32, heading: Array32) -> Array32:
        """Return the distance (n, candidates, steps), m, from the base's discs to the nearest predicted person."""
        late = (np.arange(1, self.settings.steps + 1) * self._dt).astype(np.float32)
        cos, sin = np.cos(heading), np.sin(heading)
        least: Any = np.float32(np.inf)
        for k in range(crowd.position.shape[1]):
            px, py, vx, vy, reach = (
                a[:, None, None].astype(np.float32)
                for a in (*crowd.position[:, k].T, *crowd.velocity[:, k].T, crowd.radius[:, k])
            )
            px, py = px + vx * late, py + vy * late
            for dx, dy, radius in self.body.discs:
                at_x, at_y = _shifted(x, y, cos, sin, dx, dy)
                least = np.minimum(least, np.hypot(at_x - px, at_y - py) - reach - np.float32(radius))
        return np.asarray(least)


def _candidates(body: BaseModel, settings: DwaSettings, slowest: float, fastest: float) -> Array32:
    """Return speeds and turning rates (candidates, 2)."""
    speeds = np.linspace(slowest, fastest, settings.speeds)
    bend = np.linspace(-1.0, 1.0, settings.turns)
    bend = 0.5 * bend + 0.5 * bend**3
    if math.isinf(body.curvature_per_m):
        turning = np.broadcast_to(bend * body.turning_rad_s, (len(speeds), len(bend)))
    else:
        turning = np.clip(np.outer(speeds, bend * body.curvature_per_m), -body.turning_rad_s, body.turning_rad_s)
    pairs = np.stack((np.broadcast_to(speeds[:, None], turning.shape), turning), axis=-1)
    return pairs.reshape(-1, 2).astype(np.float32)


def _shifted(x: Array32, y: Array32, cos: Array32, sin: Array32, dx: float, dy: float) -> tuple[Array32, Array32]:
    """Return the place of a point (dx, dy) of the base, with the base at (x, y)."""
    right, left = np.float32(dx), np.float32(dy)
    return x + cos * right - sin * left, y + sin * right + cos * left
