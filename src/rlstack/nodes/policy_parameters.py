"""Parameters of the policy node, most of which planners' nodes have as well."""

from __future__ import annotations

import math

from rlstack.nodes.frames import FRAME_PARAMETERS
from rlstack.nodes.goal_subscriptions import GOAL_PARAMETERS
from rlstack.nodes.instruction_subscription import INSTRUCTION_PARAMETER
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.real_time import REAL_TIME_PRIORITY
from rlstack.nodes.robot_parameters import ROBOT_SHA256
from rlstack.nodes.sensor_readers import SCAN_PARAMETERS
from rlstack.nodes.transform_listener import TRANSFORM_TIMEOUT

_NAN = math.nan

PARAMETERS = (
    Parameter(
        "policy",
        "",
        "Path of the policy file (ONNX). Another one takes its place between two steps; policy/file says when, or why"
        " not.",
        live=True,
    ),
    Parameter(
        "policy_sha256",
        "",
        "SHA-256 that the policy file must have, as sha256sum prints it; empty: any.",
        live=True,
    ),
    Parameter(
        "require_record",
        False,
        "Whether a file that takes the place of another one needs a passing verification record beside it.",
    ),
    Parameter("record_sha256", "", "The same for verify.json beside it, if the live check uses it; empty: any."),
    Parameter("robot", "", "Robot that the policy must be for, a name or file; empty: the policy's."),
    ROBOT_SHA256,
    Parameter(
        "goal_position",
        (_NAN, _NAN, _NAN),
        "Position to hold until a goal or path arrives, m in odom; NaN: wait for the topic.",
        nan=True,
        live=True,
    ),
    Parameter("goal_yaw", _NAN, "Heading at goal_position, rad; NaN: 0.", nan=True, live=True),
    INSTRUCTION_PARAMETER,
    Parameter("lock_step", False, "Step once for every observation, on inputs of exactly its stamp."),
    Parameter(
        "asynchronous",
        True,
        "Whether a policy that plans chunks plans the next one while the robot carries out the last; not in lock step.",
    ),
    Parameter(
        "stale_after_periods",
        0.0,
        "Age, in periods of the policy or of a slower sensor, from which an input is too old to act on; 0: the policy"
        " file's own ages, or 2 periods if it states none.",
        minimum=0.0,
        maximum=100.0,
        live=True,
    ),
    Parameter(
        "topic_timeout_s", 5.0, "Time limit for the first message of every topic, s.", minimum=0.1, maximum=3600.0
    ),
    REAL_TIME_PRIORITY,
    *SCAN_PARAMETERS,
    *FRAME_PARAMETERS,
    TRANSFORM_TIMEOUT,
    *GOAL_PARAMETERS,
    Parameter(
        "picture_max_age_s",
        0.0,
        "Age from which a camera image is too old to act on, s; 0: the policy's own.",
        minimum=0.0,
        maximum=10.0,
    ),
    Parameter(
        "live_check",
        False,
        "Whether to compare delay, rate and noise of the inputs with what the policy is proven for, while disarmed.",
    ),
    Parameter("goal_tolerance_m", 0.2, "Distance at which a base's goal counts as reached, m.", minimum=0.001),
    Parameter(
        "patience_s",
        30.0,
        "Time without progress after which a base's goal is reported as out of reach, s.",
        minimum=0.1,
    ),
)

_OF_FILES = (
    "policy",
    "policy_sha256",
    "require_record",
    "record_sha256",
    "robot",
    "instruction",
    "asynchronous",
    "goal_tolerance_m",
    "patience_s",
)

WITHOUT_A_FILE = tuple(parameter for parameter in PARAMETERS if parameter.name not in _OF_FILES)
"""Parameters of nodes that command as a policy node does, and have no policy file."""
