"""The dynamic window alone: straight towards the goal, without a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack import schema
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.dwa import DwaSettings, DynamicWindow
from rlstack.control.navigation.global_planner import StraightLinePlanner
from rlstack.control.navigation.goal_planner import GoalPlanner, GoalSettings
from rlstack.control.navigation.planner_interface import Scanner
from rlstack.robots import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class AloneSettings(DwaSettings):
    """Weights for driving without a map, tuned separately (``benchmarks/tune_planners.py --planner dwa``)."""

    horizon_s: float = value(2.0, unit="s", above=0.0)
    goal: float = value(3.0, at_least=0.0)
    heading: float = value(0.6, at_least=0.0)
    clearance: float = value(1.0, at_least=0.0)
    safe: float = value(2.2, unit="radii of the base", above=0.0)
    collision: float = value(2.0, at_least=0.0)
    speed: float = value(1.0, at_least=0.0)
    smooth: float = value(0.1, at_least=0.0)
    margin: float = value(0.18, unit="radii of the base", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options."""

    lidar: str = "scan"
    people: bool = False
    """Whether to read people and avoid where they will be."""
    goal: GoalSettings = value(GoalSettings)
    dwa: AloneSettings = value(AloneSettings)


def build(robot: RobotSpec, **options: Any) -> GoalPlanner:
    """Return the planner for a robot; settings in ``options`` are mappings.

    Raises:
        UserError: The robot is no base or has no such lidar, or an option is unknown or not allowed.
    """
    chosen = schema.load(Options, options, "the options of the planner dwa")
    body = BaseModel.of(robot)
    local = DynamicWindow(body, chosen.dwa, 1.0 / chosen.goal.rate_hz)
    scanner = Scanner(body.lidar(chosen.lidar), body.discs)
    return GoalPlanner(body, scanner, StraightLinePlanner(), local, chosen.goal, sees_people=chosen.people)


PLANNER = build
