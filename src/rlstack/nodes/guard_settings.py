"""The guard node's parameters: what all guards have, and what each kind of robot's guard adds."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from rlstack.errors import UserError
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.robots import RobotSpec

_NAN = math.nan
_OWN = "the robot file's limit if not given"
_USUAL = "its usual value if not given"


def _unset(
    name: str, description: str, minimum: float, maximum: float = math.inf, otherwise: str = _USUAL
) -> Parameter:
    return Parameter(name, _NAN, f"{description}; {otherwise}.", minimum=minimum, maximum=maximum, nan=True)


ALL = (
    _unset("tilt_rad", "Largest tilt, rad", 0, 3.15, "a quadrotor's own limit, 0.35 of a wheeled base, if not given"),
    _unset("linear_velocity_m_s", "Largest speed, m/s", 0, otherwise=_OWN),
    _unset("angular_velocity_rad_s", "Largest angular velocity, rad/s", 0, otherwise=_OWN),
    Parameter(
        "geofence_min_m",
        (),
        f"Lower corner of the geofence, m in odom: x y z, of a wheeled base x y; {_OWN}.",
        each=float,
    ),
    Parameter(
        "geofence_max_m",
        (),
        f"Upper corner of the geofence, m in odom: x y z, of a wheeled base x y; {_OWN}.",
        each=float,
    ),
    Parameter("observation_timeout_s", 0.2, "Longest time without an observation, s.", minimum=0.001),
    Parameter(
        "recover_after_s", 1.0, "How long a late policy must be in time before it commands again, s.", minimum=0.0
    ),
)

QUADROTOR = (
    _unset("rotor_acceleration_rad_s2", "Fastest change of a rotor speed command, rad/s^2", 0, otherwise=_OWN),
    Parameter("staleness_periods", 2.0, "Control periods from which a policy's command is stale.", minimum=1.0),
    Parameter("hover_before_landing_s", 5.0, "How long the fallback hovers before it lands, s.", minimum=0.0),
    Parameter("takeoff_height_m", 1.0, "Height above the ground at which the policy takes over, m.", minimum=0.01),
    Parameter("landing_speed_m_s", 0.3, "Descent of the fallback, m/s.", minimum=0.01),
    Parameter("floor_m", 0.0, "Height of the floor in odom, m."),
)

STALENESS = _unset("staleness_s", "Age from which a policy's command is stale, s", 0.001)

WHEELED_BASE = (
    _unset("linear_acceleration_m_s2", "Fastest change of the commanded speed, m/s^2", 0, otherwise=_OWN),
    _unset("angular_acceleration_rad_s2", "Fastest change of the commanded turning, rad/s^2", 0, otherwise=_OWN),
    Parameter("overspeed", 1.5, "Measured speeds beyond so many times the limit are a fault.", minimum=1.0),
    Parameter("protective_stop", True, "Brake for what the lidar called scan sees."),
    Parameter("clearance_m", 0.02, "What the protective stop keeps free around the robot, m.", minimum=0.0),
    Parameter("reaction_s", 0.25, "How long the robot goes on until braking begins, s.", minimum=0.0),
    _unset("scan_timeout_s", "Age from which a scan is not believed, s", 0.001, otherwise="2.5 turns of the lidar"),
    Parameter("jump_m", 0.1, "Odometry further than this from where its speed leads has jumped, m.", minimum=0.001),
    Parameter("jump_rad", 0.35, "Likewise its heading, rad.", minimum=0.001),
    STALENESS,
    Parameter("stand_before_disarming_s", 10.0, "How long a stopped robot waits for a late policy, s.", minimum=0.0),
    Parameter("fallback", "stop", "What drives when the policy cannot: stop, or a planner such as dwa."),
    Parameter(
        "goal_position",
        (_NAN, _NAN, _NAN),
        "Where a planner drives as fallback until a goal comes on the topic, m in odom.",
        nan=True,
    ),
    Parameter(
        "cmd_vel_type",
        "TwistStamped",
        "What is published on cmd_vel: Twist for drivers that want it, without a stamp.",
        choices=("TwistStamped", "Twist"),
    ),
)

MANIPULATOR = (
    Parameter(
        "workspace_min_m", (), f"Lower corner of the box that the tool is kept in, m in base_link; {_OWN}.", each=float
    ),
    Parameter("workspace_max_m", (), f"Upper corner of it, m in base_link; {_OWN}.", each=float),
    _unset("tool_velocity_m_s", "Largest speed of an arm's tool, m/s", 0, otherwise=_OWN),
    Parameter("joint_speed", 1.0, "Share of the joints' speeds that targets may move with.", minimum=0.001),
    Parameter("speed_up_s", 0.15, "Least time in which targets go from standing to full speed, s.", minimum=0.0),
    Parameter(
        "window_s", 0.06, "Time whose motion a target may make up for at once: a policy's period, s.", minimum=0.001
    ),
    Parameter("self_collision", True, "Keep the arm's links from each other."),
    Parameter("apart_m", 0.02, "What is kept free between links that could meet, m.", minimum=0.0),
    STALENESS,
    Parameter("hold_before_parking_s", 10.0, "How long an arm holds still before it parks, s.", minimum=0.0),
    Parameter("park", True, "Whether it then goes slowly to its rest position; else it disarms where it is."),
    Parameter("parking_speed", 0.1, "Share of the joints' speeds that it parks with.", minimum=0.001, maximum=1.0),
    Parameter(
        "cmd_joints_type",
        "JointTrajectory",
        "What is published on cmd/joints: Float64MultiArray for controllers that want it, without a stamp.",
        choices=("JointTrajectory", "Float64MultiArray"),
    ),
)

KINDS: dict[str, tuple[Parameter, ...]] = {
    "quadrotor": QUADROTOR,
    "wheeled_base": WHEELED_BASE,
    "manipulator": MANIPULATOR,
}


def guard_config(kind: type[Any], robot: RobotSpec, parameters: ParameterSet) -> Any:
    """Return the settings of a robot's guard from the node's parameters.

    Args:
        kind: The class of the settings.
        robot: The robot, whose limits hold unless tightened.
        parameters: Of the node.

    Raises:
        UserError: A value is not allowed, or a parameter was given that this kind of guard does not have.
    """
    own = {field.name for field in fields(kind)}
    mine = KINDS.get(robot.kind, ())
    for name, others in KINDS.items():
        for parameter in others if name != robot.kind else ():
            if parameter not in mine and _is_given(parameter, parameters[parameter.name]):
                raise UserError(
                    f"The parameter {parameter.name} is of the guard of a {name}, and {robot.name} is a {robot.kind}:"
                    " leave it out."
                )
    for parameter in ALL:
        if parameter.name not in own and _is_given(parameter, parameters[parameter.name]):
            known = ", ".join(p.name for p in (*ALL, *mine) if p.name in own)
            raise UserError(
                f"The parameter {parameter.name} limits nothing of {robot.name}, a {robot.kind}: leave it out. Its"
                f" guard knows: {known}."
            )
    given = {p.name: parameters[p.name] for p in (*ALL, *mine) if p.name in own}
    overrides = {name: value for name, value in given.items() if not _is_empty(value)}
    if robot.kind == "wheeled_base":
        for name in ("geofence_min_m", "geofence_max_m"):
            if name in overrides:
                overrides[name] = overrides[name][:2]
    return kind.from_robot(robot, allow_wider=parameters["allow_wider"], **overrides)  # type: ignore[attr-defined]


def _is_empty(value: Any) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    return all(isinstance(number, float) and math.isnan(number) for number in numbers)  # as of an empty list


def _is_given(parameter: Parameter, value: Any) -> bool:
    return not _is_empty(value) and value != parameter.default
