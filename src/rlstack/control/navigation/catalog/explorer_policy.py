"""Exploration by a learned policy: it chooses where to go on a coarse map, and the classical stack drives there.

The policy moves from cell to cell. A base that stopped in each would be slow, so the policy is rolled out on the
current map until it reaches the edge of the known area, returns to a visited cell or has gone far enough. Of the
frontiers, into which a base fits, the one is best of which most would be seen, with the shortest way, nearest to that
cell; the base drives there while it exists. The fine map tells the first two, and the policy where to go on. Where it
finds nothing reachable, or nothing new for a while, the first two decide.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rlstack import schema
from rlstack.arrays import Array
from rlstack.control.navigation.frontier import (
    Frontier,
    FrontierPlanner,
    FrontierSettings,
    Known,
    build_explorer,
    utility,
)
from rlstack.control.navigation.goal_planner import GoalPlanner
from rlstack.control.navigation.occupancy import Field
from rlstack.errors import UserError
from rlstack.policies import Contract, load_policy
from rlstack.robots import RobotSpec
from rlstack.schema import value

UNKNOWN, FREE, OCCUPIED = -1.0, 0.0, 100.0


@dataclass(frozen=True, kw_only=True)
class PolicyExplorerSettings:
    """The explored area, and how far the policy is rolled out."""

    cell_m: float = value(0.25, unit="m", above=0.0)
    """Side of the policy's cells, as in training."""
    area_min_m: tuple[float, float] = value((-4.0, -4.0), unit="m")
    area_max_m: tuple[float, float] = value((4.0, 4.0), unit="m")
    """Corners of the area to explore, odom; all else counts as occupied."""
    ahead: int = value(30, unit="moves", at_least=1)
    """Longest rollout."""
    patience: int = value(15, unit="choices", at_least=1)
    """Choices without a newly known cell after which the policy is not asked, until one appears."""
    lead: float = value(0.5, unit="m of way for each m", at_least=0.0)
    """Longer path accepted for a frontier that is a metre nearer to where the policy leads; 0: it is ignored."""


class CellPolicy(Protocol):
    """A policy file for exploration."""

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero."""

    def step(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Return ``waypoint`` (N, 3) m, odom."""


class PolicyExplorer(FrontierPlanner):
    """Explores with N robots, each on its own, led by the policy.

    Args:
        planner: Drives to goals; its map is the one explored.
        frontier: Settings of the utility rule.
        policy: Chooses the next cell.
        settings: Area and rollout.
    """

    def __init__(
        self, planner: GoalPlanner, frontier: FrontierSettings, policy: CellPolicy, settings: PolicyExplorerSettings
    ) -> None:
        self._policy, self._cells = policy, settings
        super().__init__(planner, frontier)

    def reset(self, batch: int = 1) -> None:
        """Clear maps and goals, for ``batch`` robots."""
        super().reset(batch)
        self._known = np.zeros(batch, dtype=np.intp)
        self._idle = np.zeros(batch, dtype=np.intp)

    def _best(self, n: int, position: Array, found: list[Frontier], places: Array, known: Known) -> int:
        seen = coarse(self.global_planner.grids.part(n, position[None]), self._cells, position)
        count = int((seen >= 0.0).sum())
        self._idle[n] = 0 if count > self._known[n] else self._idle[n] + 1
        self._known[n] = count
        led = self._rollout(seen, position) if self._idle[n] < self._cells.patience else None
        if led is None:
            return super()._best(n, position, found, places, known)
        worth = utility(found, known, weight=self.settings.weight_m)
        return int((worth - self._cells.lead * np.linalg.norm(places - led, axis=1) / known.cell_m).argmax())

    def _rollout(self, seen: Array, position: Array) -> Array | None:
        """Return the end of the policy's rollout (2,) m, odom; None: it stays."""
        settings, corner = self._cells, np.array(self._cells.area_min_m)
        inputs = {
            "map": seen[None],
            "map_resolution": np.array([[settings.cell_m]]),
            "map_origin": np.array([[*corner, 0.0]]),
        }
        self._policy.reset(1)
        been: set[tuple[int, int]] = set()
        here, goal = position, None
        for _ in range(settings.ahead):
            cell = cell_of(here, settings, seen.shape)
            if cell in been or (been and at_edge(seen, cell)):
                break
            been.add(cell)
            here = self._policy.step({**inputs, "position": np.array([[*here, 0.0]])})["waypoint"][0, :2]
            ahead = cell_of(here, settings, seen.shape)
            if seen[ahead] != FREE or ahead == cell:
                break
            goal = here
        return goal


def cell_of(place: Array, settings: PolicyExplorerSettings, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return row and column of a place (2,) m, odom, the nearest inside the area."""
    column, row = np.floor((place - settings.area_min_m) / settings.cell_m).astype(np.intp)
    return int(np.clip(row, 0, shape[0] - 1)), int(np.clip(column, 0, shape[1] - 1))


def at_edge(seen: Array, cell: tuple[int, int]) -> bool:
    """Return whether one of the eight cells around ``cell`` is unknown."""
    row, column = cell
    return bool((seen[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] == UNKNOWN).any())


def coarse(field: Field, settings: PolicyExplorerSettings, position: Array) -> Array:
    """Return the area's map (rows, columns) in the policy's cells.

    A cell is occupied if any part of it is, unknown if most of it is, and free where the robot stands.

    Args:
        field: The map of one robot.
        settings: Cells and area.
        position: (2,) m, odom, of the robot.
    """
    low, high = np.array(settings.area_min_m), np.array(settings.area_max_m)
    columns, rows = np.maximum(np.rint((high - low) / settings.cell_m).astype(np.intp), 1)
    occupied, unknown = field.occupied[0], field.unknown[0]
    place = [
        np.floor((field.origin[0][axis] + (np.arange(size) + 0.5) * field.resolution_m - low[axis]) / settings.cell_m)
        for axis, size in enumerate((occupied.shape[1], occupied.shape[0]))
    ]
    inside = np.ix_(*((place[axis] >= 0) & (place[axis] < most) for axis, most in ((1, rows), (0, columns))))
    row, column = (place[axis][(place[axis] >= 0) & (place[axis] < most)] for axis, most in ((1, rows), (0, columns)))
    index = (row[:, None] * columns + column).astype(np.intp).ravel()
    count = np.bincount(index, minlength=rows * columns)
    taken = np.bincount(index, weights=occupied[inside].ravel(), minlength=rows * columns)
    blind = np.bincount(index, weights=unknown[inside].ravel(), minlength=rows * columns)
    # cells outside the map are unknown as well
    whole = (settings.cell_m / field.resolution_m) ** 2
    found = np.where(blind + np.maximum(whole - count, 0.0) > 0.5 * whole, UNKNOWN, FREE)
    seen = np.where(taken > 0, OCCUPIED, found).reshape(rows, columns)
    seen[cell_of(position, settings, seen.shape)] = FREE
    return np.asarray(seen, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options besides those of the frontier planners."""

    policy: str
    """Policy file of the task base_exploration."""
    policy_sha256: str = ""
    """SHA-256 that the file must have; default: any."""
    cells: dict[str, Any] = field(default_factory=dict)
    """Fields of :class:`PolicyExplorerSettings`; those left out are as the policy was trained."""


def build(robot: RobotSpec, **options: Any) -> PolicyExplorer:
    """Return an explorer for a robot.

    Args:
        robot: A wheeled base with a lidar.
        options: ``policy``, ``cells`` and those of the frontier planners.

    Raises:
        UserError: The policy is refused, it does not explore or with other cells, the robot is no base or has no such
            lidar, or an option is unknown.
    """
    mine = {name: options.pop(name) for name in ("policy", "policy_sha256", "cells") if name in options}
    chosen = schema.load(Options, mine, "the options of the planner explorer_policy")
    policy = load_policy(chosen.policy, robot=robot, sha256=chosen.policy_sha256)
    settings = _settings(chosen.cells, policy.contract, chosen.policy)
    frontier = build_explorer("utility", robot, **options)
    grid = frontier.global_planner.grids.settings
    if settings.cell_m < grid.resolution_m:
        raise UserError(
            f"The policy {chosen.policy} sees cells of {settings.cell_m:g} m and the map has cells of"
            f" {grid.resolution_m:g} m: let the map's be no larger, with the planner's option grid.resolution_m."
        )
    side = max(high - low for low, high in zip(settings.area_min_m, settings.area_max_m))
    cells = 2 * math.ceil(side / grid.resolution_m)  # half of the map covers the area from any place in it
    if cells > grid.cells and "grid" not in options:
        frontier = build_explorer("utility", robot, **options, grid=asdict(replace(grid, cells=cells)))
    return PolicyExplorer(frontier.planner, frontier.settings, policy, settings)


def _settings(cells: dict[str, Any], contract: Contract, path: str) -> PolicyExplorerSettings:
    outputs, trained = [port.name for port in contract.outputs], contract.envelope.conditions
    if outputs != ["waypoint"] or not {"cell_m", "side_m"} <= set(trained):
        raise UserError(
            f"The policy {path} (task {contract.task}) gives {', '.join(outputs)} and does not explore: give one of the"
            " task base_exploration."
        )
    cell_m, half = trained["cell_m"], 0.5 * trained["side_m"]
    default = PolicyExplorerSettings(cell_m=cell_m, area_min_m=(-half, -half), area_max_m=(half, half))
    where = "the options of the planner explorer_policy, cells"
    settings = schema.load(PolicyExplorerSettings, {**schema.to_data(default), **cells}, where)
    if not math.isclose(settings.cell_m, cell_m, rel_tol=1e-3):
        raise UserError(
            f"The policy {path} was trained on cells of {cell_m:g} m, and cells.cell_m is {settings.cell_m:g} m: leave"
            " it out."
        )
    low, high = settings.area_min_m, settings.area_max_m
    if not all(a + cell_m <= b for a, b in zip(low, high)):
        raise UserError(
            f"The area from {list(low)} to {list(high)} m is not allowed: cells.area_max_m must be at least a cell of"
            f" {cell_m:g} m above cells.area_min_m."
        )
    return replace(settings, cell_m=cell_m)


PLANNER = build
