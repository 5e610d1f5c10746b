"""Exploration that a policy file leads, from cell to cell of a coarse map; see ``policy_explorer``."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from rlstack import schema
from rlstack.control.navigation import exploring
from rlstack.control.navigation.policy_explorer import PolicyExplorer, PolicyExplorerSettings
from rlstack.errors import UserError
from rlstack.policies import Contract, load_policy
from rlstack.robots import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Cells:
    """What is explored, and how far the policy is asked ahead; what is left out is as the policy was trained."""

    cell_m: float | None = value(None, unit="m", above=0.0)
    """Side of the policy's cells."""
    area_min_m: tuple[float, float] | None = value(None, unit="m")
    area_max_m: tuple[float, float] | None = value(None, unit="m")
    """Corners of the area, odom; left out, a square about the origin."""
    ahead: int = PolicyExplorerSettings.ahead
    patience: int = PolicyExplorerSettings.patience


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be set beside the options of the frontier planners."""

    policy: str
    """Policy file of the task base_exploration."""
    cells: Cells = value(Cells)


def build(robot: RobotSpec, **options: Any) -> PolicyExplorer:
    """Return an explorer for a robot.

    Args:
        robot: A wheeled base with a lidar.
        options: ``policy``, ``cells`` and those of the frontier planners.

    Raises:
        UserError: The policy is refused, it does not explore or with other cells, the robot is no base or has no such
            lidar, or an option is unknown.
    """
    mine = {name: options.pop(name) for name in ("policy", "cells") if name in options}
    chosen = schema.load(Options, mine, "the options of the planner explorer_policy")
    policy = load_policy(chosen.policy, robot=robot)
    settings = _settings(chosen.cells, policy.contract, chosen.policy)
    frontier = exploring.build("utility", robot, **options)
    grid = frontier.guide.grids.settings
    if settings.cell_m < grid.resolution_m:
        raise UserError(
            f"The policy {chosen.policy} sees cells of {settings.cell_m:g} m and the map has cells of"
            f" {grid.resolution_m:g} m: let the map's be no larger, with the planner's option grid.resolution_m."
        )
    side = max(high - low for low, high in zip(settings.area_min_m, settings.area_max_m))
    cells = 2 * math.ceil(side / grid.resolution_m)  # half of the map reaches over the area from any place in it
    if cells > grid.cells and "grid" not in options:
        frontier = exploring.build("utility", robot, **options, grid=asdict(replace(grid, cells=cells)))
    return PolicyExplorer(frontier.planner, frontier.settings, policy, settings)


def _settings(cells: Cells, contract: Contract, path: str) -> PolicyExplorerSettings:
    outputs, trained = [port.name for port in contract.outputs], contract.envelope
    if outputs != ["waypoint"] or not {"cell_m", "side_m"} <= set(trained):
        raise UserError(
            f"The policy {path} (task {contract.task}) gives {', '.join(outputs)} and does not explore: give one of the"
            " task base_exploration."
        )
    cell_m, half = trained["cell_m"], 0.5 * trained["side_m"]
    if cells.cell_m is not None and not math.isclose(cells.cell_m, cell_m, rel_tol=1e-3):
        raise UserError(
            f"The policy {path} was trained on cells of {cell_m:g} m, and cells.cell_m is {cells.cell_m:g} m: leave"
            " it out."
        )
    low, high = cells.area_min_m or (-half, -half), cells.area_max_m or (half, half)
    if not all(a + cell_m <= b for a, b in zip(low, high)):
        raise UserError(
            f"The area from {list(low)} to {list(high)} m is not allowed: cells.area_max_m must be at least a cell of"
            f" {cell_m:g} m above cells.area_min_m."
        )
    return PolicyExplorerSettings(
        cell_m=cell_m, area_min_m=low, area_max_m=high, ahead=cells.ahead, patience=cells.patience
    )


PLANNER = build
