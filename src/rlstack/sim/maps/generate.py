"""Map generation from a seed: obstacles of a kind, then a reachable start and goal."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.generators import find_map_generator
from rlstack.sim.maps.map_builder import MapBuilder
from rlstack.sim.maps.occupancy_grid import CELL_M, GridFrame, grid_frame
from rlstack.sim.maps.shortest_path import find_shortest_paths, shortest_length

TRAINING_SEEDS = range(0, 1_000_000)
"""Seeds of training maps."""
HELD_OUT_SEEDS = range(1_000_000, 2_000_000)
"""Seeds of held-out maps, never used to train or tune."""

SIZE_M = 8.0
"""Default side of a map for a robot of 0.1 to 0.2 m radius, m."""
MOST_BOXES, MOST_CIRCLES = 24, 8
"""Most obstacles of a map, outer walls included: the number of slots in the batch simulator; kinds may have more
circles, see :func:`most_circles`."""
WIDTHS = (3.0, 1.6)
"""Least width of passages in robot widths, in the easiest and in the most difficult map."""

_DRAWS = 60
"""Attempts to draw a plan with room for start and goal."""
_CLEAR = 0.9
"""Least clearance of the centre of a start's or goal's cell, relative to half the least passage width."""
_CHOICES = 16
"""Number of random starts from which the preferred one is taken."""


def scale_of(radius_m: float) -> float:
    """Return the scale of a map's lengths for a robot of that radius, m: 1 from 0.1 to 0.2 m."""
    return round(radius_m / min(max(radius_m, 0.1), 0.2), 6)


def most_circles(kinds: Sequence[str]) -> int:
    """Return the greatest number of circles in maps of these kinds."""
    return max(find_map_generator(kind).circles for kind in kinds)


def search_frame(radius_m: float, size_m: tuple[float, float] | None = None) -> GridFrame:
    """Return the grid frame for path searches on a map."""
    scale = scale_of(radius_m)
    return grid_frame(size_m or (SIZE_M * scale, SIZE_M * scale), CELL_M * scale)


def safe_m(radius_m: float) -> float:
    """Return the clearance in m that two neighbouring cell centres need for a disc to move between them.

    Every point between them is then at least ``radius_m`` from all obstacles, whatever their shape.
    """
    return math.hypot(radius_m, CELL_M * scale_of(radius_m) / 2.0)


def draw_map(kind: str, seed: int, difficulty: float = 0.5, radius_m: float = 0.105, **settings: Any) -> FloorMap:
    """Return a map with one start; arguments and errors as for :func:`draw_maps`."""
    return draw_maps(kind, seed, difficulty, radius_m, **settings)[0]


def draw_maps(
    kind: str,
    seed: int,
    difficulty: float = 0.5,
    radius_m: float = 0.105,
    *,
    size_m: tuple[float, float] | None = None,
    at_least_m: float | None = None,
    at_most_m: float = math.inf,
    starts: int = 1,
) -> list[FloorMap]:
    """Return one map with several starts for its goal; equal arguments give the same maps on every machine.

    They share the arrays of obstacles and of the goal. There are fewer if the map has no more room.

    Args:
        kind: One of :data:`rlstack.sim.maps.generators.MAP_GENERATORS`.
        seed: A whole number from 0 on.
        difficulty: From 0 to 1: narrower passages, more obstacles, farther goals.
        radius_m: Radius of the robot's bounding cylinder.
        size_m: Extents of the floor along x and y, outer walls included; None: 8 x 8 m, for a larger robot more.
        at_least_m: Least length of the path to the goal; None: 0.3 to 0.5 of the floor's smaller side, by difficulty.
        at_most_m: Greatest length of the path to the goal.
        starts: Number of starts.

    Raises:
        UserError: An argument is not allowed, or no map of that kind has room for start and goal.
    """
    entry = find_map_generator(kind)
    _check(seed, difficulty, radius_m, size_m)
    scale = scale_of(radius_m)
    size = size_m or (SIZE_M * scale, SIZE_M * scale)
    least = min(size) * (0.3 + 0.2 * difficulty) if at_least_m is None else at_least_m
    width = 2.0 * radius_m * (WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * difficulty)
    for attempt in range(_DRAWS):
        words = [seed, zlib.crc32(kind.encode()), attempt]
        plan = MapBuilder(
            np.random.Generator(np.random.PCG64(words)),
            difficulty=difficulty,
            size_m=size,
            scale=scale,
            gap_m=width,
            most_boxes=MOST_BOXES,
            most_circles=entry.circles,
        )
        entry.draw(plan)
        rng = np.random.Generator(np.random.PCG64([*words, 1]))
        search = _StartGoalSearch(plan, search_frame(radius_m, size_m), radius_m, rng)
        pairs = search.pairs((least, at_most_m), starts, entry.prefer, difficulty)
        if pairs:
            of_all = kind, seed, difficulty, radius_m, size, search.boxes, search.circles
            return [FloorMap(*of_all, start, goal, shortest) for start, goal, shortest in pairs]
    raise UserError(
        f"No map of the kind '{kind}' with seed {seed} has a path of {least:g} to {at_most_m:g} m on {size[0]:g} x"
        f" {size[1]:g} m for a robot of radius {radius_m:g} m: make the floor larger, or change the length."
    )


def training_maps(
    rng: np.random.Generator,
    count: int,
    *,
    kinds: Sequence[str],
    difficulty: tuple[float, float] = (0.0, 1.0),
    radius_m: float = 0.105,
    starts: int = 1,
    **settings: Any,
) -> list[FloorMap]:
    """Return training maps: kinds in turn, seeds from :data:`TRAINING_SEEDS`, random difficulties.

    Args:
        rng: Draws seeds and difficulties.
        count: How many; several starts in one map count as several.
        kinds: Kinds of map, in equal shares.
        difficulty: Least and greatest difficulty.
        radius_m: Radius of the robot.
        starts: Starts per map.
        settings: Further arguments of :func:`draw_maps`.

    Raises:
        UserError: As for :func:`draw_maps`.
    """
    maps: list[FloorMap] = []
    for number in itertools.count():
        if len(maps) >= count:
            break
        seed = int(rng.integers(TRAINING_SEEDS.start, TRAINING_SEEDS.stop))
        if seed not in TRAINING_SEEDS:
            raise ValueError(f"{seed} is not a training seed")
        level = float(rng.uniform(*difficulty))
        few = min(starts, count - len(maps))
        maps += draw_maps(kinds[number % len(kinds)], seed, level, radius_m, starts=few, **settings)
    return maps


class _StartGoalSearch:
    """Search for start and goal positions in one plan, over the cells where a robot fits."""

    def __init__(self, plan: MapBuilder, frame: GridFrame, radius_m: float, rng: np.random.Generator) -> None:
        self.boxes, self.circles = plan.boxes, plan.circles
        self._frame, self._radius, self._rng = frame, radius_m, rng
        away = frame.distance(self.boxes, self.circles)
        self._free = away >= safe_m(radius_m)
        self._places = np.argwhere(away >= _CLEAR * plan.gap_m / 2.0)

    def pairs(
        self, length: tuple[float, float], starts: int, prefer: str | None, difficulty: float
    ) -> list[tuple[Array, Array, float]]:
        """Return starts, one goal and the path lengths between them; no starts if there is no such pair."""
        if not len(self._places):
            return []
        for _ in range(4):
            cell = self._places[self._draw(len(self._places))]
            paths = find_shortest_paths(self._free, (int(cell[0]), int(cell[1])))
            far = paths.length[tuple(self._places.T)] * self._frame.resolution_m
            # the path over cells is up to 8% longer than the shortest
            good = np.flatnonzero((far >= 1.08 * length[0]) & (far <= length[1]))
            if len(good) < 20:
                continue
            goal = self._pose(cell)
            found = []
            for _ in range(starts):
                chosen = self._chosen(good, far, cell, prefer, difficulty)
                start_cell = self._places[chosen]
                start = self._pose(start_cell)
                if not np.isfinite(far[chosen]):  # still drawn, to keep the random numbers the same
                    continue
                path = self._frame.points(paths.path((int(start_cell[0]), int(start_cell[1]))))
                path = np.concatenate([start[None, :2], path, goal[None, :2]])
                shortest = round(shortest_length(path, self.boxes, self.circles, self._radius), 4)
                if length[0] <= shortest <= length[1]:
                    found.append((start, goal, shortest))
            if found:
                return found
        return []

    def _chosen(self, good: NDArray[np.intp], far: Array, goal: Array, prefer: str | None, difficulty: float) -> int:
        picks = good[[self._draw(len(good)) for _ in range(_CHOICES)]]
        if prefer is None or self._rng.random() > 0.5 + 0.5 * difficulty:
            return int(picks[0])
        if prefer == "far":
            return int(picks[np.argmax(far[picks])])
        straight = np.hypot(*(self._places[picks] - goal).T)
        return int(picks[np.argmax(far[picks] / straight)])

    def _draw(self, count: int) -> int:
        return min(int(self._rng.random() * count), count - 1)

    def _pose(self, cell: Array) -> Array:
        """Return a pose in a cell from which the cell's centre is reachable, with a random yaw."""
        x, y = self._frame.points(cell)[0]
        # a path with a clearance of 1.6 radii at the centre leaves 1.2 here
        spare = min(0.2 * self._radius, 0.5 * self._frame.resolution_m)
        dx, dy, yaw = (2.0 * self._rng.random() - 1.0 for _ in range(3))
        return np.array([x + 0.7 * spare * dx, y + 0.7 * spare * dy, math.pi * yaw]).round(5)


def _check(seed: int, difficulty: float, radius_m: float, size_m: tuple[float, float] | None) -> None:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UserError(f"seed: {seed!r} is not allowed: must be a whole number from 0 on.")
    if not 0.0 <= difficulty <= 1.0:
        raise UserError(f"difficulty: {difficulty!r} is not allowed: must be from 0 to 1.")
    if not (math.isfinite(radius_m) and radius_m > 0.0):
        raise UserError(f"radius_m: {radius_m!r} is not allowed: must be more than 0.")
    least = 4.0 * scale_of(radius_m)
    if size_m is not None and not all(math.isfinite(side) and side >= least for side in size_m):
        raise UserError(f"size_m: {size_m!r} is not allowed: both sides must be at least {least:g} m for that robot.")
