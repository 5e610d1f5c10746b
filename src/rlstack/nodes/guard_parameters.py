"""The guard node's parameters: those common to all guards, and the conversion to a guard's configuration."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from rlstack.errors import UserError
from rlstack.nodes.kind_topics import all_kind_topics
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.robots import RobotSpec

NAN = math.nan
OWN = "the robot file's limit if not given"
_USUAL = "its usual value if not given"


def unset(name: str, description: str, minimum: float, maximum: float = math.inf, otherwise: str = _USUAL) -> Parameter:
    """Return a number parameter that is NaN (not set) by default; ``otherwise`` describes the default."""
    return Parameter(name, NAN, f"{description}; {otherwise}.", minimum=minimum, maximum=maximum, nan=True)


COMMON = (
    unset("tilt_rad", "Largest tilt, rad", 0, 3.15, "a quadrotor's own limit, 0.35 of a wheeled base, if not given"),
    unset("linear_velocity_m_s", "Largest speed, m/s", 0, otherwise=OWN),
    unset("angular_velocity_rad_s", "Largest angular velocity, rad/s", 0, otherwise=OWN),
    Parameter(
        "geofence_min_m",
        (),
        f"Lower corner of the geofence, m in odom: x y z, of a wheeled base x y; {OWN}.",
        each=float,
    ),
    Parameter(
        "geofence_max_m",
        (),
        f"Upper corner of the geofence, m in odom: x y z, of a wheeled base x y; {OWN}.",
        each=float,
    ),
    Parameter("observation_timeout_s", 0.2, "Longest time without an observation, s.", minimum=0.001),
    Parameter(
        "recover_after_s", 1.0, "How long a late policy must be in time before it commands again, s.", minimum=0.0
    ),
)

STALENESS = unset("staleness_s", "Age from which a policy's command is stale, s", 0.001)


def guard_parameters() -> tuple[Parameter, ...]:
    """Return the common parameters and those that the kinds add; several kinds may share one."""
    added = (parameter for topics in all_kind_topics().values() for parameter in topics.GUARD_PARAMETERS)
    return tuple(dict.fromkeys((*COMMON, *added)))


def guard_config(kind: type[Any], robot: RobotSpec, parameters: ParameterSet) -> Any:
    """Return the configuration of a robot's guard from the node's parameters.

    Args:
        kind: The class of the configuration.
        robot: The robot; its limits hold unless tightened.
        parameters: Those of the node.

    Raises:
        UserError: A value is not allowed, or a parameter does not apply to this kind of guard.
    """
    own = {field.name for field in fields(kind)}
    kinds = all_kind_topics()
    mine = kinds[robot.kind].GUARD_PARAMETERS
    names = {parameter.name for parameter in mine}
    for name, others in kinds.items():
        for parameter in others.GUARD_PARAMETERS if name != robot.kind else ():
            if parameter.name not in names and _is_given(parameter, parameters[parameter.name]):
                raise UserError(
                    f"The parameter {parameter.name} is of the guard of a {name}, and {robot.name} is a {robot.kind}:"
                    " leave it out."
                )
    for parameter in COMMON:
        if parameter.name not in own and _is_given(parameter, parameters[parameter.name]):
            known = ", ".join(p.name for p in (*COMMON, *mine) if p.name in own)
            raise UserError(
                f"The parameter {parameter.name} limits nothing of {robot.name}, a {robot.kind}: leave it out. Its"
                f" guard knows: {known}."
            )
    declared = (p for p in guard_parameters() if p.name in own)  # another kind's default does not apply to this one
    overrides = {p.name: parameters[p.name] for p in declared if _is_given(p, parameters[p.name])}
    return kind.from_robot(robot, allow_wider=parameters["allow_wider"], **overrides)  # type: ignore[attr-defined]


def _is_empty(value: Any) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    return all(isinstance(number, float) and math.isnan(number) for number in numbers)  # as for an empty list


def _is_given(parameter: Parameter, value: Any) -> bool:
    return not _is_empty(value) and value != parameter.default
