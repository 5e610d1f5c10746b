"""Pure pursuit of the path on ``goal_path``, or of given lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack import schema
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.pure_pursuit import Line, PurePursuit, PursuitSettings
from rlstack.robots import RobotSpec
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options."""

    pursuit: PursuitSettings = value(PursuitSettings)


def build(robot: RobotSpec, lines: tuple[Line, ...] | None = None, **options: Any) -> PurePursuit:
    """Return the planner for a robot.

    Args:
        robot: A wheeled base.
        lines: Paths with speeds, one for all robots or one for each; None: the path signals.
        options: As :class:`Options`; settings are mappings.

    Raises:
        UserError: The robot is no base, or an option is unknown or not allowed.
    """
    chosen = schema.load(Options, options, "the options of the planner pure_pursuit")
    return PurePursuit(BaseModel.of(robot), chosen.pursuit, lines)


PLANNER = build
