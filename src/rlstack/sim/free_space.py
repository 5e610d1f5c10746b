"""Free space on a world's floor, and start positions in it.

A body is an upright cylinder on the floor: it touches an obstacle that reaches down to its height as soon as their
outlines from above touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Mask
from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.sim.obstacle import Obstacle

Point = tuple[float, float, float]
Rectangle = tuple[float, float, float, float]
"""x and y of the lower corner, x and y of the upper corner, m."""

STEP_M = 0.1
"""Spacing of the grid's points, m."""

MAX_FLOOR_M2 = 50_000.0
"""Largest floor on which start positions are looked for, m^2, which takes seconds."""

_ROUNDING_M = 1e-6

LEAST_REACHABLE = 0.95
"""Least reachable share of the places where a body fits."""


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Requirements on start positions."""

    count: int = value(16, at_least=1, at_most=1000)
    clearance_m: float = value(0.5, unit="m", above=0.0)
    """Least distance of a start position from the world's edge and from obstacles lower than the body's height."""
    spacing_m: float = value(1.0, unit="m", above=0.0)
    """Least distance between two start positions."""
    body_radius_m: float = value(0.4, unit="m", above=0.0)
    """Radius of a body that can move between all start positions."""
    body_height_m: float = value(1.8, unit="m", above=0.0)
    """Height of that body."""


class NoRoom(Exception):
    """The obstacles leave no room for start positions; the message says why."""


def find_starts(
    obstacles: Sequence[Obstacle], inside: Sequence[Rectangle], rules: Starts, rng: np.random.Generator
) -> tuple[Point, ...]:
    """Return start positions ``(x, y, 0)`` in m: the world's origin first, the others drawn at random.

    Args:
        obstacles: Obstacles on the floor.
        inside: The usable floor, as rectangles that may overlap.
        rules: Requirements on the positions.
        rng: Random generator; only its ``random()`` is used.

    Raises:
        NoRoom: The origin is not free, there are too few positions, or a part of the floor is unreachable.
        UserError: The floor is too large.
    """
    grid = _Grid(inside)
    # With half a step of extra clearance, the straight line between two neighbouring free points is free, too.
    passable = grid.inside & ~grid.within(obstacles, rules.body_radius_m + STEP_M / 2.0, rules.body_height_m)
    clear = grid.within_edges(rules.clearance_m) & ~grid.within(obstacles, rules.clearance_m, rules.body_height_m)
    if not (clear & passable)[grid.origin]:
        raise NoRoom(
            f"the origin, where the first robot starts, is not {rules.clearance_m:g} m from all obstacles and the edge"
        )
    reached = _flooded(passable, grid.origin)
    share = reached.sum() / passable.sum()
    if share < LEAST_REACHABLE:
        raise NoRoom(f"a body of radius {rules.body_radius_m:g} m can get to only {100 * share:.0f}% of the free floor")
    candidates = np.argwhere(reached & clear)
    candidates = candidates[np.argsort(rng.random(len(candidates)), kind="stable")]
    places, chosen = grid.places(candidates), [np.zeros(2)]
    while len(chosen) < rules.count:
        apart = ((places - chosen[-1]) ** 2).sum(axis=1) >= rules.spacing_m**2
        places = places[apart]
        if not len(places):
            raise NoRoom(f"there are {len(chosen)} start places {rules.spacing_m:g} m apart, not {rules.count}")
        chosen.append(places[0])
    return tuple((float(x), float(y), 0.0) for x, y in chosen)


class _Grid:
    """Grid points at whole multiples of the step over the rectangles."""

    def __init__(self, inside: Sequence[Rectangle]) -> None:
        edges = np.array(inside)
        low = np.minimum(np.ceil(edges[:, :2].min(axis=0) / STEP_M - 1e-9), 0).astype(int)
        high = np.maximum(np.floor(edges[:, 2:].max(axis=0) / STEP_M + 1e-9), 0).astype(int)
        across, along = (high - low) * STEP_M
        if across * along > MAX_FLOOR_M2:
            raise UserError(
                f"The world's floor is {across:g} x {along:g} m, more than {MAX_FLOOR_M2:g} m^2, in which start places"
                " can be looked for: make it smaller under 'settings'."
            )
        self._low, self._edges = low, edges
        # Division keeps decimal values: 3 / 10 is 0.3, but 3 * 0.1 is not.
        self._x, self._y = (np.arange(low[a], high[a] + 1) / round(1.0 / STEP_M) for a in (0, 1))
        self.origin = (int(-low[0]), int(-low[1]))
        self.inside: Mask = np.zeros((len(self._x), len(self._y)), dtype=bool)
        for x0, y0, x1, y1 in inside:
            self.inside[self._window(x0, x1, y0, y1)] = True

    def places(self, cells: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the positions x, y (N, 2) of cells (N, 2), m."""
        return np.stack([self._x[cells[:, 0]], self._y[cells[:, 1]]], axis=1)

    def within_edges(self, margin: float) -> Mask:
        """Return which inner points are at least ``margin`` from the edges of the rectangles' bounding box."""
        low, high = self._edges[:, :2].min(axis=0) + margin, self._edges[:, 2:].max(axis=0) - margin
        kept: Mask = np.zeros_like(self.inside)
        kept[self._window(low[0], high[0], low[1], high[1])] = True
        return kept & self.inside

    def within(self, obstacles: Sequence[Obstacle], margin: float, height: float) -> Mask:
        """Return which points are nearer than ``margin`` to an obstacle's outline from above."""
        near: Mask = np.zeros_like(self.inside)
        for obstacle in obstacles:
            if obstacle.lowest_m >= height - _ROUNDING_M or obstacle.highest_m <= _ROUNDING_M:
                continue
            (x, y, _), (rx, ry) = obstacle.position_m, obstacle.reach_m
            window = self._window(x - rx - margin, x + rx + margin, y - ry - margin, y + ry + margin)
            away = _outline_distance(obstacle, self._x[window[0]][:, None] - x, self._y[window[1]][None, :] - y)
            near[window] |= away < margin
        return near

    def _window(self, x0: float, x1: float, y0: float, y1: float) -> tuple[slice, slice]:
        def span(first: float, last: float, axis: int) -> slice:
            start = int(np.ceil(first / STEP_M - 1e-9)) - self._low[axis]
            return slice(max(start, 0), max(int(np.floor(last / STEP_M + 1e-9)) - self._low[axis] + 1, 0))

        return span(x0, x1, 0), span(y0, y1, 1)


def _outline_distance(obstacle: Obstacle, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the planar distance, m, of points relative to the centre from the obstacle's outline."""
    if obstacle.shape != "box":
        return np.hypot(x, y) - obstacle.size_m[0] / 2.0
    c, s = np.cos(obstacle.yaw_rad), np.sin(obstacle.yaw_rad)
    across = np.abs(c * x + s * y) - obstacle.size_m[0] / 2.0
    along = np.abs(c * y - s * x) - obstacle.size_m[1] / 2.0
    outside = np.hypot(np.maximum(across, 0.0), np.maximum(along, 0.0))
    return outside + np.minimum(np.maximum(across, along), 0.0)


def _flooded(free: Mask, start: tuple[int, int]) -> Mask:
    """Return the cells that are reachable from ``start`` over free 4-neighbours.

    A whole free run along x or y is filled as soon as one of its cells is reached, so the number of passes is the
    number of bends of the longest path.
    """
    breaks_y, breaks_x = ~free, ~free.T
    breaks_y[:, 0] = breaks_x[:, 0] = True  # runs end at row ends
    runs = [np.cumsum(breaks_y).reshape(free.shape), np.cumsum(breaks_x).reshape(free.T.shape).T]
    reached: Mask = np.zeros_like(free)
    reached[start] = free[start]
    count = 0
    while count != (count := int(reached.sum())):
        for run in runs:
            hit = np.zeros(run.max() + 1, dtype=bool)
            hit[run[reached]] = True
            reached = hit[run] & free
    return reached
