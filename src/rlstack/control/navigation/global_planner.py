"""Global planners: straight for the goal, or A* on a map built from scans; they give the next local goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.control.navigation import astar
from rlstack.control.navigation.astar import CostSettings
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.occupancy import Field, GridSettings, OccupancyGrids
from rlstack.control.navigation.planner_interface import Motion, People, Scanner, ScanPoints
from rlstack.schema import value

_COARSE = 2
"""Paths are searched on every second cell, with the clearances of all cells."""
_STANDING_M_S = 0.2
"""Slower people are obstacles for the path; faster ones will be elsewhere."""
_POINTS = 256
"""Most points of a path that are kept; the path is replanned long before its robot reaches their end."""


@dataclass(frozen=True)
class LocalGoal:
    """The points that local planners of N robots drive to.

    Args:
        target: (N, 2) m, odom.
        left: (N,) m, remaining distance along the path.
        open: (N,) whether a path is known.
        grown: (N,) whether the map has grown since the last step that reported growth.
    """

    target: Array
    left: Array
    open: Mask
    grown: Mask


class GlobalPlanner(Protocol):
    """Gives local goals, once a control period."""

    def reset(self, batch: int = 1) -> None:
        """Reset the state, for ``batch`` robots."""

    def forget(self, robots: Mask) -> None:
        """Clear the maps of some robots (N,), whose odometry jumped."""

    def plan(
        self, motion: Motion, scan_points: ScanPoints, goal: Array, people: Mask | None, crowd: People | None = None
    ) -> LocalGoal:
        """Return the local goals.

        Args:
            motion: Their poses and velocities.
            scan_points: Points of their scans.
            goal: (N, 2) m, odom.
            people: (N, rays) which rays hit people; None: unknown.
            crowd: The people; None: unknown.
        """


class StraightLinePlanner:
    """Returns the goal itself, whatever is in between."""

    def reset(self, batch: int = 1) -> None:
        """No-op: it has no state."""

    def forget(self, robots: Mask) -> None:
        """No-op: it has no state."""

    def plan(
        self, motion: Motion, scan_points: ScanPoints, goal: Array, people: Mask | None, crowd: People | None = None
    ) -> LocalGoal:
        """Return the goal."""
        count = len(goal)
        left = np.linalg.norm(goal - motion.position, axis=1)
        return LocalGoal(goal, left, np.ones(count, dtype=bool), np.zeros(count, dtype=bool))


@dataclass(frozen=True, kw_only=True)
class PathSettings:
    """How paths are searched and followed."""

    replan_s: float = value(1.0, unit="s", above=0.0)
    map_s: float = value(0.2, unit="s", above=0.0)
    """Time between scans that go into the map."""
    lookahead_s: float = value(1.75, unit="s", above=0.0)
    """Look-ahead along the path, as time at full speed."""
    tolerance_m: float = value(0.1, unit="m", at_least=0.0)
    """A goal too close to an obstacle is moved to the nearest free place within this distance."""
    costs: CostSettings = value(CostSettings)


class GridPathPlanner:
    """A* once a second on a map from scans, or a given one; the local goal lies ahead on the path.

    Args:
        body: The base.
        scanner: Scanner of its lidar.
        settings: How paths are searched and followed.
        grid: Size of the map and its sensor model.
        period_s: Control period, s.
    """

    def __init__(
        self, body: BaseModel, scanner: Scanner, settings: PathSettings, grid: GridSettings, period_s: float
    ) -> None:
        self.body, self.settings, self.scanner = body, settings, scanner
        self.grids = OccupancyGrids(scanner, grid)
        self._known: Field | None = None
        self._map_every = max(1, round(settings.map_s / period_s))
        self._plan_every = max(1, round(settings.replan_s / period_s))
        self._spacing = _COARSE * grid.resolution_m
        self._period_s = period_s
        self.reset()

    def use_map(self, field: Field | None) -> None:
        """Plan on given grids, one for each robot or one for all, instead of those from scans."""
        self._known = field
        self._distance: dict[int, Array] = {}

    def reset(self, batch: int = 1) -> None:
        """Clear maps and paths, except a given map, for ``batch`` robots."""
        self.grids.reset(batch)
        self._distance = {}
        self._step = 0
        self._way = np.zeros((batch, _POINTS, 2))
        self._length = np.zeros((batch, _POINTS))  # from each point to the end
        self._open = np.ones(batch, dtype=bool)
        self._goal = np.full((batch, 2), np.nan)
        self._seen = np.zeros(batch)

    def forget(self, robots: Mask) -> None:
        """Clear the maps of some robots (N,), and replan."""
        self.grids.forget(robots)
        self._goal[robots] = np.nan
        self._seen[robots] = 0.0

    def plan(
        self, motion: Motion, scan_points: ScanPoints, goal: Array, people: Mask | None, crowd: People | None = None
    ) -> LocalGoal:
        """Return points ahead on the paths."""
        grown = np.zeros(len(goal), dtype=bool)
        if self._known is None and self._step % self._map_every == 0:
            self.grids.update(motion, scan_points, people)
        moved = ~(np.linalg.norm(goal - self._goal, axis=1) < 0.1)
        due = moved if self._step % self._plan_every else np.ones(len(goal), dtype=bool)
        for n in np.flatnonzero(due).tolist():
            grown[n] = self._plan(n, motion.position[n], goal[n], _standing(crowd, n))
        self._goal[due] = goal[due]
        self._step += 1
        return self._ahead(motion, goal, grown)

    def remembered(self, motion: Motion, reach_m: float) -> tuple[Array, Mask]:
        """Return mapped obstacles where the lidar is blind: (N, points, 2) m, ``base_link``, and which are valid."""
        found = []
        for n, position in enumerate(motion.position):
            places = self.grids.near(n, position, reach_m)
            cos, sin = np.cos(motion.heading[n]), np.sin(motion.heading[n])
            points = (places - position) @ np.array([[cos, -sin], [sin, cos]])
            inside = [
                np.hypot(points[:, 0] - x, points[:, 1] - y) < radius - 0.5 * self.grids.settings.resolution_m
                for x, y, radius in self.body.discs
            ]  # what was inside the footprint has moved away
            found.append(points[self.scanner.blind(points, self.grids.settings.resolution_m) & ~np.any(inside, axis=0)])
        most = max((len(points) for points in found), default=0)
        together, counts = np.zeros((len(found), most, 2)), np.zeros((len(found), most), dtype=bool)
        for n, points in enumerate(found):
            together[n, : len(points)], counts[n, : len(points)] = points, True
        return together, counts

    def _ahead(self, motion: Motion, goal: Array, grown: Mask) -> LocalGoal:
        rows = np.arange(len(goal))
        # the nearest point at the beginning of the path: a later part may pass close by, behind a wall
        reach = self.body.speed_m_s * (self.settings.replan_s + 0.5) + 2.0 * self.body.reach_m
        near = min(max(3, int(reach / self._spacing) + 1), _POINTS)
        away = np.linalg.norm(self._way[:, :near] - motion.position[:, None], axis=2)
        here = away.argmin(axis=1)
        steps = max(1, round(self.settings.lookahead_s * self.body.speed_m_s / self._spacing))
        ahead = np.minimum(here + steps, _POINTS - 1)
        left = away[rows, here] + self._length[rows, here]
        return LocalGoal(self._way[rows, ahead], left, self._open.copy(), grown)

    def _plan(self, n: int, position: Array, goal: Array, standing: Array) -> bool:
        """Plan a robot's path around standing people (people, 3): x, y, radius; return whether its map grew."""
        if self._known is None:
            field, robot = self.grids.part(n, np.stack((position, goal))), 0
            seen = float((~field.unknown[robot]).sum()) * field.resolution_m**2
            grown = seen > self._seen[n] + (4.0 * self.body.radius_m) ** 2
            self._seen[n] = max(seen, self._seen[n]) if grown else self._seen[n]
            distance = astar.clearance(field.occupied[robot], field.resolution_m)
        else:
            field, robot, grown = self._known, min(n, len(self._known.occupied) - 1), False
            if robot not in self._distance:
                self._distance[robot] = astar.clearance(field.occupied[robot], field.resolution_m)
            distance = self._distance[robot]
        for x, y, radius in standing:
            rows, columns = np.ogrid[: field.shape[0], : field.shape[1]]
            right, up = (np.array([x, y]) - field.origin[robot]) / field.resolution_m - 0.5
            away = np.hypot(columns - right, rows - up) * field.resolution_m - radius
            distance = np.minimum(distance, np.maximum(away, 0.0))
        way = search(field, robot, position, goal, self.body, self.settings, distance)
        self._open[n] = way is not None
        if way is not None:
            self._way[n], self._length[n] = _resampled(way, self._spacing)
        return grown


def search(
    field: Field, robot: int, position: Array, goal: Array, body: BaseModel, settings: PathSettings, distance: Array
) -> Array | None:
    """Return the corners (corners, 2) m, odom, of a path from ``position`` to ``goal`` (2,), or None.

    It keeps the settings' margin where possible, and none where no other path exists. From a place too close to an
    obstacle it first leads away. A goal beyond the grid is replaced by the nearest place in it.

    Args:
        field: Grids.
        robot: Which of them.
        position: (2,) m, odom.
        goal: (2,) m, odom.
        body: The base.
        settings: Costs, and how far a goal too close to an obstacle may be moved.
        distance: (rows, columns) m to the nearest occupied cell.
    """
    thin = Field(
        field.occupied[:, ::_COARSE, ::_COARSE],
        field.unknown[:, ::_COARSE, ::_COARSE],
        field.origin - 0.5 * (_COARSE - 1) * field.resolution_m,
        _COARSE * field.resolution_m,
    )
    clear, unknown = distance[::_COARSE, ::_COARSE], thin.unknown[robot]
    start, end = thin.cell(robot, position), thin.cell(robot, goal)
    middles = np.indices(thin.shape).transpose(1, 2, 0)
    to_start, to_end = (np.linalg.norm((middles - cell) * thin.resolution_m, axis=2) for cell in (start, end))
    leaving = (to_start < body.radius_m + 2.0 * thin.resolution_m) & (clear > 0.5 * field.resolution_m)
    graph = astar.grid_graph(thin.shape)
    for kept in ((1.0 + settings.costs.margin) * body.radius_m, body.radius_m - 0.5 * field.resolution_m):
        cost = astar.costs(clear, unknown, body.radius_m, kept, settings.costs)
        near = np.where(np.isfinite(cost), to_end, np.inf)
        last = np.unravel_index(near.argmin(), near.shape)
        if near[last] > settings.tolerance_m + 0.5 * thin.resolution_m:
            continue
        cost = np.where(leaving & np.isinf(cost), 30.0, cost)
        cells = graph.path(cost, (int(start[0]), int(start[1])), (int(last[0]), int(last[1])))
        if cells is not None:
            corners = astar.shortcut(cells, clear, kept, kept + settings.costs.fade * body.radius_m)
            way = thin.centre(robot, corners)
            way[0] = position
            if near[last] < thin.resolution_m:
                way[-1] = goal
            return way
    return None


def _standing(crowd: People | None, n: int) -> Array:
    """Return x, y and radius (people, 3) of people around a robot who hardly move; paths lead around them."""
    if crowd is None:
        return np.zeros((0, 3))
    slow = np.linalg.norm(crowd.velocity[n], axis=1) < _STANDING_M_S
    return np.column_stack((crowd.position[n], crowd.radius[n]))[slow]


def _resampled(way: Array, spacing: float) -> tuple[Array, Array]:
    """Return evenly spaced points along a path, padded with the last, and the remaining length from each."""
    if len(way) == 1:
        return np.repeat(way, _POINTS, axis=0), np.zeros(_POINTS)
    along = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(way, axis=0), axis=1))))
    at = np.minimum(np.arange(_POINTS) * spacing, along[-1])
    points = np.column_stack([np.interp(at, along, way[:, k]) for k in (0, 1)])
    return points, along[-1] - at
