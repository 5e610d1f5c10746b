"""Where the robots of a deployment are to go at first, and how far their guards let them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.bringup.crew import Crew, Point, robot_goals
from rlstack.bringup.process import Parameter
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec
from rlstack.robots.kinematics import chain_of, tool_motion

HOVER_AT_M = (0.0, 0.0, 1.0)
"""Where a quadrotor goes if nothing is said, m."""


def goals_of(spec: RobotSpec, crew: Crew, goal: Sequence[float] | None) -> list[Point]:
    """Return each robot's goal in ``odom``, of arms in ``base_link``."""
    if isinstance(spec, Manipulator):
        if goal is not None and (len(goal) != 3 or not all(math.isfinite(x) for x in goal)):
            raise UserError(f"The goal {list(goal)} is not allowed: give three finite numbers x y z in metres.")
        low, high = spec.limits.workspace_min_m, spec.limits.workspace_max_m
        if goal is not None and not all(least <= at <= most for least, at, most in zip(low, goal, high)):
            raise UserError(
                f"The goal {list(goal)} is not allowed: {spec.name}'s workspace, which the guard keeps it in, is from"
                f" {list(low)} to {list(high)}, m in base_link."
            )
        x, y, z = map(float, _tool_at_rest(spec) if goal is None else goal)
        return [(x, y, z)] * len(crew.namespaces)
    if not isinstance(spec, WheeledBase):
        wanted = HOVER_AT_M if goal is None else goal
        if len(wanted) != 3 or not all(math.isfinite(x) for x in wanted):
            raise UserError(f"The goal {list(wanted)} is not allowed: give three finite numbers x y z in metres.")
        return robot_goals(crew.starts_m, wanted)
    height = float(spec.rest_height_m)
    if goal is not None:
        if len(goal) not in (2, 3) or not all(math.isfinite(x) for x in goal):
            raise UserError(f"The goal {list(goal)} is not allowed: give two finite numbers x y in metres.")
        return [(x, y, height) for x, y, _ in robot_goals(crew.starts_m, (*goal[:2], 0.0))]
    if crew.goal_m is not None and len(crew.namespaces) == 1:
        return [(*crew.goal_m[:2], height)]
    return [(float(x), float(y), height) for x, y, _ in crew.starts_m]


def fence_of(world: tuple[Point, Point] | None, spec: RobotSpec) -> dict[str, Parameter]:
    """Return the guard's parameters that let a simulated robot use all of its world."""
    if world is None or isinstance(spec, Manipulator):
        return {}
    limits: Any = spec.limits  # type: ignore[attr-defined]
    low, high = limits.geofence_min_m, limits.geofence_max_m
    lower = np.minimum(world[0][: len(low)], low)
    upper = np.maximum(world[1][: len(high)], high)
    return {
        "allow_wider": True,
        "geofence_min_m": tuple(map(float, lower)),
        "geofence_max_m": tuple(map(float, upper)),
    }


def _tool_at_rest(arm: Manipulator) -> Sequence[float]:
    chain = chain_of(arm)
    rest = np.array([arm.drives[k].rest for k in chain.index])
    place: list[float] = tool_motion(chain.screws, rest[None]).position[0].tolist()
    return place
