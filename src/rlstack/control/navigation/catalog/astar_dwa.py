"""The full stack: a map from scans, A* on it once a second, the dynamic window along the path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack import schema
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.dwa import DwaSettings, DynamicWindow
from rlstack.control.navigation.global_planner import GridPathPlanner, PathSettings
from rlstack.control.navigation.goal_planner import GoalPlanner, GoalSettings
from rlstack.control.navigation.occupancy import GridSettings
from rlstack.control.navigation.planner_interface import Scanner
from rlstack.robots import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options."""

    lidar: str = "scan"
    people: bool = False
    """Whether to read people, avoid where they will be, and keep them out of the map."""
    goal: GoalSettings = value(GoalSettings)
    path: PathSettings = value(PathSettings)
    dwa: DwaSettings = value(DwaSettings)
    grid: GridSettings | None = None
    """Default: by the base's size."""


def build(robot: RobotSpec, **options: Any) -> GoalPlanner:
    """Return the planner for a robot; ``planner.global_planner.use_map(field)`` sets a known map.

    Raises:
        UserError: The robot is no base or has no such lidar, or an option is unknown or not allowed.
    """
    chosen = schema.load(Options, options, "the options of the planner astar_dwa")
    body, period = BaseModel.of(robot), 1.0 / chosen.goal.rate_hz
    scanner = Scanner(body.lidar(chosen.lidar), body.discs)
    grid = chosen.grid or GridSettings.for_body(body)
    global_planner = GridPathPlanner(body, scanner, chosen.path, grid, period)
    local = DynamicWindow(body, chosen.dwa, period)
    return GoalPlanner(body, scanner, global_planner, local, chosen.goal, sees_people=chosen.people)


PLANNER = build
