"""ORCA among people, with the scan's obstacles as half planes; with a lidar along an A* path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack import schema
from rlstack.control.navigation.body import Body
from rlstack.control.navigation.driver import Scanner
from rlstack.control.navigation.global_planner import GlobalPlanner, GridPathPlanner, PathSettings, StraightLinePlanner
from rlstack.control.navigation.occupancy import GridSettings
from rlstack.control.navigation.orca import Orca, OrcaSettings
from rlstack.control.navigation.planner import GoalPlanner, GoalSettings
from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be set."""

    lidar: str = "scan"
    """Empty: people are all that is seen."""
    people: bool = True
    """Whether people are among the signals; otherwise all that is scanned stands still."""
    map: bool = True
    """Whether to head along a way through a map from scans; otherwise straight for the goal."""
    goal: GoalSettings = value(GoalSettings)
    path: PathSettings = value(PathSettings)
    orca: OrcaSettings = value(OrcaSettings)
    grid: GridSettings | None = None
    """Left out: by the base's size."""


def build(robot: RobotSpec, **options: Any) -> GoalPlanner:
    """Return the planner for a robot; one without any lidar sees people alone and heads straight for its goal.

    Args:
        robot: A differential or holonomic base.
        options: As :class:`Options`; what it holds as mappings.

    Raises:
        UserError: The robot is no such base or lacks the lidar, an option is unknown or not allowed, or the robot is
            left without people and lidar.
    """
    chosen = schema.load(Options, options, "the options of the planner orca")
    body, period = Body.of(robot), 1.0 / chosen.goal.rate_hz
    seeing = bool(chosen.lidar) and bool(body.lidars)
    if not seeing and not chosen.people:
        raise UserError("The planner orca would see nothing: give the robot a lidar, or leave people true.")
    scanner = Scanner(body.lidar(chosen.lidar), body.discs) if seeing else None
    global_planner: GlobalPlanner = StraightLinePlanner()
    if scanner is not None and chosen.map:
        global_planner = GridPathPlanner(body, scanner, chosen.path, chosen.grid or GridSettings.for_body(body), period)
    local = Orca(body, chosen.orca, period)
    return GoalPlanner(body, scanner, global_planner, local, chosen.goal, sees_people=chosen.people)


PLANNER = build
