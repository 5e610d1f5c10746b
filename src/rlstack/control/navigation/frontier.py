"""Frontier exploration: choose a frontier, drive there, repeat.

B. Yamauchi, "A Frontier-Based Approach for Autonomous Exploration", CIRA 1997: frontiers are free cells beside unknown
ones, and the nearest is chosen (``greedy``). W. Burgard, M. Moors, C. Stachniss, F. Schneider, "Coordinated multi-robot
exploration", IEEE Transactions on Robotics 2005: the expected gain counts too (``utility``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rlstack import schema
from rlstack.arrays import Array, Mask
from rlstack.control.navigation import astar
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.dwa import DwaSettings, DynamicWindow
from rlstack.control.navigation.global_planner import GridPathPlanner, PathSettings
from rlstack.control.navigation.goal_planner import GoalPlanner, GoalSettings
from rlstack.control.navigation.occupancy import GridSettings
from rlstack.control.navigation.planner_interface import JUMP_M, Scanner, Status, motion
from rlstack.libraries import import_library
from rlstack.robots import RobotSpec
from rlstack.schema import value

_RAYS = 32
"""Directions of the rays that estimate what would be seen."""


@dataclass(frozen=True, kw_only=True)
class FrontierSettings:
    """How a frontier is chosen."""

    rule: Literal["greedy", "utility"] = "greedy"
    weight_m: float = value(0.5, unit="m of way for each m^2", at_least=0.0)
    """Longer path accepted for each additional m^2 that is expected to be seen."""
    smallest_m: float = value(0.15, unit="m", at_least=0.0)
    """Shorter frontiers are ignored."""
    choose_s: float = value(1.0, unit="s", above=0.0)
    """Time between choices; a frontier is kept while it exists."""
    sight_m: float | None = value(None, unit="m", above=0.0)
    """Sensing range; default: that of the map's settings."""


@dataclass(frozen=True)
class Frontier:
    """A reachable frontier: a group of known free cells beside unknown ones.

    Args:
        cell: Row and column of its nearest cell, by path.
        cost: Cost of the path there, in cells.
        size: Cells in its group.
    """

    cell: tuple[int, int]
    cost: float
    size: int


def frontiers(free: Mask, unknown: Mask, way: Array, smallest: int = 1) -> list[Frontier]:
    """Return the frontiers: free cells beside unknown ones, in connected groups that can be reached.

    Args:
        free: (rows, columns) known to be free.
        unknown: (rows, columns).
        way: (rows, columns) cost of the path to each cell, in cells; inf: there is none.
        smallest: Smaller groups are ignored.
    """
    ndimage = import_library("scipy.ndimage", "navigation")
    edge = free & ndimage.binary_dilation(unknown) & np.isfinite(way)
    labels, count = ndimage.label(edge, structure=np.ones((3, 3)))
    if not count:
        return []
    numbers = np.arange(1, count + 1)
    sizes = ndimage.sum_labels(edge, labels, numbers)
    places = ndimage.minimum_position(way, labels, numbers)
    return [
        Frontier((int(row), int(column)), float(way[row, column]), int(size))
        for (row, column), size in zip(places, sizes)
        if size >= smallest
    ]


def expected_gain(cell: tuple[int, int], occupied: Mask, unknown: Mask, sight: float) -> int:
    """Return how many unknown cells would be seen from a cell, up to ``sight`` cells away."""
    angles = np.arange(_RAYS) * (2.0 * math.pi / _RAYS)
    steps = np.arange(1, max(int(sight), 1) + 1)
    rows = np.rint(cell[0] + np.outer(np.sin(angles), steps)).astype(np.intp)
    columns = np.rint(cell[1] + np.outer(np.cos(angles), steps)).astype(np.intp)
    inside = (rows >= 0) & (rows < occupied.shape[0]) & (columns >= 0) & (columns < occupied.shape[1])
    rows, columns = np.clip(rows, 0, occupied.shape[0] - 1), np.clip(columns, 0, occupied.shape[1] - 1)
    seen = inside & ~np.logical_or.accumulate(occupied[rows, columns], axis=1)
    new = seen & unknown[rows, columns]
    # a ray stands for the ring's cells on both sides of it
    share = 2.0 * math.pi * steps / _RAYS
    return int((new * np.maximum(share, 0.0)).sum())


@dataclass(frozen=True)
class Known:
    """The known part of one map, in the cells of frontiers.

    Args:
        solid: (rows, columns) occupied, or too near to what is.
        blind: (rows, columns) unknown.
        sight: Sensing range, in cells.
        cell_m: Side of a cell.
    """

    solid: Mask
    blind: Mask
    sight: float
    cell_m: float


def best(found: list[Frontier], rule: str, known: Known, *, weight: float) -> int:
    """Return the number of the frontier to go to.

    Args:
        found: As :func:`frontiers` returns them, one or more.
        rule: ``greedy``: the shortest path; ``utility``: the largest gain times ``weight`` minus the path.
        known: The map.
        weight: Path length, m, that one more m^2 is worth.
    """
    if rule == "greedy":
        return min(range(len(found)), key=lambda k: found[k].cost)
    return int(utility(found, known, weight=weight).argmax())


def utility(found: list[Frontier], known: Known, *, weight: float) -> Array:
    """Return what each frontier is worth (frontiers,), in cells of path: its gain times ``weight`` minus the path.

    Args:
        found, known, weight: As of :func:`best`.
    """
    gains = [expected_gain(frontier.cell, known.solid, known.blind, known.sight) for frontier in found]
    return weight * known.cell_m * np.array(gains) - np.array([frontier.cost for frontier in found])


class FrontierPlanner:
    """Explores with N robots, each on its own: chooses a frontier, drives there, and so on.

    Its ``status`` is arrived once no frontier is left. Frontiers that could not be reached are skipped.

    Args:
        planner: Drives to goals along a :class:`GridPathPlanner`; its map is the one explored.
        settings: How a frontier is chosen.
    """

    def __init__(self, planner: GoalPlanner, settings: FrontierSettings) -> None:
        if not isinstance(planner.global_planner, GridPathPlanner):
            raise TypeError("exploring needs a planner with a map")
        self.planner, self.global_planner, self.settings = planner, planner.global_planner, settings
        self.inputs = tuple(name for name in planner.inputs if name != "goal_position")
        self.outputs = planner.outputs
        self._every = max(1, round(settings.choose_s * planner.settings.rate_hz))
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Clear maps and frontiers, for ``batch`` robots."""
        self.planner.reset(batch)
        self.status = np.full(batch, Status.DRIVING, dtype=np.int8)
        self.goal = np.zeros((batch, 2))
        self._left: list[list[Array]] = [[] for _ in range(batch)]
        self._last = np.full((batch, 2), np.nan)
        self._step = 0

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands, and update ``status``."""
        now = motion(inputs)
        with np.errstate(invalid="ignore"):
            jumped = np.linalg.norm(now.position - self._last, axis=1) > JUMP_M
        self._last = now.position.copy()
        for n in np.flatnonzero(jumped).tolist():
            self._left[n].clear()
        if self._step == 0:
            self.goal = now.position.copy()
        settled = self.planner.status != Status.DRIVING
        if self._step:
            due = settled | jumped | (self._step % self._every == 0) | (self._step < 3)
            for n in np.flatnonzero(due).tolist():
                self._choose(n, now.position[n])
        self._step += 1
        command = self.planner.step({**inputs, "goal_position": np.column_stack((self.goal, np.zeros(len(self.goal))))})
        done = self.status == Status.ARRIVED
        command[self.outputs[0]][done] = 0.0
        return command

    def _choose(self, n: int, position: Array) -> None:
        global_planner, body = self.global_planner, self.planner.body
        field = global_planner.grids.part(n, position[None])
        occupied, unknown = field.occupied[0], field.unknown[0]
        distance = astar.clearance(occupied, field.resolution_m)
        clear, cell_m = distance[::2, ::2], 2.0 * field.resolution_m
        blind, solid = unknown[::2, ::2], occupied[::2, ::2] | (clear < 0.75 * cell_m)
        origin = field.origin[0] - 0.5 * field.resolution_m
        start = np.floor((position - origin) / cell_m).astype(int)[::-1]
        if self._step > 3 and self.planner.status[n] != Status.DRIVING:
            self._left[n].append(self.goal[n].copy())  # visited or unreachable: do not choose it again
        weights = global_planner.settings.costs
        cost = astar.costs(clear, blind, body.radius_m, (1.0 + weights.margin) * body.radius_m, weights)
        rows, columns = np.indices(cost.shape)
        to_start = np.hypot(rows - start[0], columns - start[1]) * cell_m
        cost = np.where((to_start < body.radius_m + 2.0 * cell_m) & (clear > 0.0) & np.isinf(cost), 30.0, cost)
        cost = np.where(blind, np.inf, cost)  # paths to a frontier lead over known cells
        cost[start[0], start[1]] = 1.0
        way = astar.grid_graph(cost.shape).field(cost, (int(start[0]), int(start[1])))
        found = frontiers(~blind & ~solid, blind, way, max(1, round(self.settings.smallest_m / cell_m)))
        found = [f for f in found if not self._given_up(n, origin + (np.array(f.cell[::-1]) + 0.5) * cell_m)]
        sight = (self.settings.sight_m or global_planner.grids.sight_m) / cell_m
        if not found:
            self.status[n] = Status.ARRIVED
            return
        self.status[n] = Status.DRIVING
        places = origin + (np.array([f.cell for f in found])[:, ::-1] + 0.5) * cell_m
        still = bool(np.linalg.norm(places - self.goal[n], axis=1).min() < 2.0 * cell_m)
        if self.settings.rule == "utility" and still and self.planner.status[n] == Status.DRIVING:
            return  # the chosen frontier still exists
        self.goal[n] = places[self._best(n, position, found, places, Known(solid, blind, sight, cell_m))]

    def _best(self, n: int, position: Array, found: list[Frontier], places: Array, known: Known) -> int:
        """Return the number of the frontier to go to, of those ``found`` at ``places`` (F, 2) m, odom."""
        return best(found, self.settings.rule, known, weight=self.settings.weight_m)

    def _given_up(self, n: int, place: Array) -> bool:
        return any(float(np.linalg.norm(place - left)) < 3.0 * self.planner.body.radius_m for left in self._left[n])


@dataclass(frozen=True, kw_only=True)
class ExplorerOptions:
    """Options."""

    lidar: str = "scan"
    goal: GoalSettings = value(lambda: GoalSettings(tolerance_m=0.2))
    path: PathSettings = value(PathSettings)
    dwa: DwaSettings = value(DwaSettings)
    frontier: FrontierSettings = value(FrontierSettings)
    grid: GridSettings | None = None
    """Default: by the base's size, with all rays."""


def build_explorer(rule: Literal["greedy", "utility"], robot: RobotSpec, **options: Any) -> FrontierPlanner:
    """Return an explorer for a robot.

    Args:
        rule: Which frontier is chosen; overrides the options.
        robot: A wheeled base with a lidar.
        options: As :class:`ExplorerOptions`; settings are mappings.

    Raises:
        UserError: The robot is no base or has no such lidar, or an option is unknown or not allowed.
    """
    chosen = schema.load(ExplorerOptions, options, f"the options of the planner frontier_{rule}")
    body, period = BaseModel.of(robot), 1.0 / chosen.goal.rate_hz
    scanner = Scanner(body.lidar(chosen.lidar), body.discs)
    grid = chosen.grid or replace(GridSettings.for_body(body), rays=360)
    global_planner = GridPathPlanner(body, scanner, chosen.path, grid, period)
    planner = GoalPlanner(body, scanner, global_planner, DynamicWindow(body, chosen.dwa, period), chosen.goal)
    return FrontierPlanner(planner, replace(chosen.frontier, rule=rule))
