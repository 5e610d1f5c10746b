"""ORCA among people, with the scan's obstacles as half planes; with a lidar along an A* path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack import schema
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.global_planner import GlobalPlanner, GridPathPlanner, PathSettings, StraightLinePlanner
from rlstack.control.navigation.goal_planner import GoalPlanner, GoalSettings
from rlstack.control.navigation.occupancy import GridSettings
from rlstack.control.navigation.orca import Orca, OrcaSettings
from rlstack.control.navigation.planner_interface import Scanner
from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options."""

    lidar: str = "scan"
    """Empty: only people are sensed."""
    people: bool = True
    """Whether to read people; otherwise all scanned points are static."""
    map: bool = True
    """Whether to follow a path on a map from scans; otherwise straight towards the goal."""
    goal: GoalSettings = value(GoalSettings)
    path: PathSettings = value(PathSettings)
    orca: OrcaSettings = value(OrcaSettings)
    grid: GridSettings | None = None
    """Default: by the base's size."""


def build(robot: RobotSpec, **options: Any) -> GoalPlanner:
    """Return the planner for a robot; one without a lidar senses only people and heads straight for its goal.

    Raises:
        UserError: The robot is no such base or lacks the lidar, an option is unknown or not allowed, or the robot is
            left without people and lidar.
    """
    chosen = schema.load(Options, options, "the options of the planner orca")
    body, period = BaseModel.of(robot), 1.0 / chosen.goal.rate_hz
    seeing = bool(chosen.lidar) and bool(body.lidars)
    if not seeing and not chosen.people:
        raise UserError("The planner orca would sense nothing: give the robot a lidar, or leave people true.")
    scanner = Scanner(body.lidar(chosen.lidar), body.discs) if seeing else None
    global_planner: GlobalPlanner = StraightLinePlanner()
    if scanner is not None and chosen.map:
        global_planner = GridPathPlanner(body, scanner, chosen.path, chosen.grid or GridSettings.for_body(body), period)
    local = Orca(body, chosen.orca, period)
    return GoalPlanner(body, scanner, global_planner, local, chosen.goal, sees_people=chosen.people)


PLANNER = build
