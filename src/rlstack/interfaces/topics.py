"""The names, types and quality of service of the common topics; only functions that ROS nodes use import rclpy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

from rlstack.errors import UserError

if TYPE_CHECKING:
    from rclpy.qos import QoSProfile

ODOM = "odom"
IMU = "imu"
JOINT_STATES = "joint_states"
BATTERY = "battery"
GOAL = "goal"
GOAL_PATH = "goal_path"
GOAL_ACTIVE = "goal/active"
"""The goal that a policy or planner pursues, in :data:`WORLD_FRAME`; of a path, the point that is due. Latched."""
GOAL_DISTANCE = "goal/distance"
"""Distance from it, m, of the robot, or of the tool or the object that is to reach it."""
GOAL_REACHED = "goal/reached"
"""Whether it is reached. Latched."""
GOAL_REFUSED = "goal/refused"
"""Why a goal or path was refused, once for each."""
INSTRUCTION = "instruction"
"""What a language-conditioned policy is to do, as a sentence."""
INSTRUCTION_ACTIVE = "instruction/active"
"""The sentence that a policy follows, as it understood it; empty: it waits for one. Latched."""
LATCHED = frozenset({GOAL, GOAL_PATH, INSTRUCTION})
"""Topics whose last value holds until it is replaced."""
ROTOR_COMMAND = "cmd/rotors"
RATES_COMMAND = "cmd/rates"
"""Body rates and collective thrust, for a quadrotor whose autopilot controls its rates."""
TWIST_COMMAND = "cmd_vel"
JOINT_COMMAND = "cmd/joints"
EXTERNAL_POSE = "external_pose"
"""Pose of a robot that does not measure its own position, from motion capture or visual odometry."""
FLOW = "flow"
"""Velocity over the floor by optical flow, turning compensated, in ``base_link``; forward and left count."""
RANGE = "range"
"""Distance to the floor along the body's downward axis, of a rangefinder."""
COMMANDS = (ROTOR_COMMAND, RATES_COMMAND, TWIST_COMMAND, JOINT_COMMAND)
"""Topics of commands to robots; each robot takes one of them."""
OBJECT = "object"
"""Pose of the object that an arm handles, from a tracker."""
PEOPLE = "people"
MAP = "map"
SCAN = "scan"
"""Topic of the lidar that is a signal; its type is :data:`SCAN_TYPE`, as of any other lidar with one ring."""
POLICY_PREFIX = "policy/"
"""Prefix of the policy node's commands; the guard alone publishes the topics without it."""
POLICY_STEPS = POLICY_PREFIX + "steps"
"""Which messages each step of a policy was on, as rows of integers with their columns' names in the layout, ten times a
second: with it, a recording can be run again exactly."""
POLICY_HELD = POLICY_PREFIX + "held"
"""The policy's inputs that hold until they are replaced (goal, path, instruction), as numbers, whenever they change:
``policy/steps`` names them by their version. Latched."""
POLICY_FILE = POLICY_PREFIX + "file"
"""Which file the policy node steps, with its SHA-256, from which step on, and which was refused, as JSON. Latched."""
ADAPTATION = "adaptation"
"""What the adaptation in flight has measured, learned, proven and swapped, or why not, a sentence each. Latched."""
GUARD_MODE = "guard/mode"
GUARD_REASON = "guard/reason"
"""Why the guard is in its mode; sent just before :data:`GUARD_MODE`. Latched."""
GUARD_INTERVENTIONS = "guard/interventions"
"""Number of times that the guard has taken over from the policy since it was configured."""
LIVE_CHECK = "live_check"
"""What the policy node has measured of its inputs that is not proven, before arming; empty if all are. Latched."""
DIAGNOSTICS = "/diagnostics"
MARKERS = "markers"
TELEOP_TWIST = "teleop/twist"
"""Tool velocity: m/s and rad/s, in ``base_link`` or in the tool's own frame, by ``header.frame_id``."""
TELEOP_GRIPPER = "teleop/gripper"
"""Gripper motion: 1 opens at its joints' full speed, -1 closes, 0 holds."""
TELEOP_JOINTS = "teleop/joints"
"""Joint targets of a leader arm, rad or m, by name, instead of a twist."""
INTERVENE = "teleop/intervene"
"""Whether the human is in control; otherwise other commands of the arm continue. Latched."""
POLICY_ALONE = "policy_alone/cmd/joints"
"""Commands of a policy that a human may correct: the arm's teleoperation node forwards them as ``policy/cmd/joints``
while nobody intervenes."""
ROBOT_DESCRIPTION = "robot_description"
WORLD_MARKERS = "/markers/world"
"""Absolute, like the next four: all robots of a simulation share one world, one frame tree and one clock."""
MOVED_MARKERS = "/markers/moved"
"""Where movable obstacles are now, by the numbers of :data:`WORLD_MARKERS`."""
TF = "/tf"
TF_STATIC = "/tf_static"
CLOCK = "/clock"
REAL_TIME_FACTOR = "/real_time_factor"
"""Simulated seconds per second that a simulator aims at; 0: it is paused. Latched."""
DISTURBANCE = "disturbance"
"""Force and torque that push a simulated robot, in ``odom`` or ``base_link``, for :data:`DISTURBED_S`."""
DISTURBED_S = 0.2
"""How long a message of :data:`DISTURBANCE` acts, s of simulated time; the next one replaces it."""

RESET = "reset"
PAUSE = "~/pause"
"""Service of a simulator's node: let its time stand still, or pass again."""
ARM = "arm"
ESTOP = "estop"
POLICY_RESET = POLICY_PREFIX + RESET
"""Service of a policy node whose policy keeps state: start anew, with the next observation."""
CLEAR_ESTOP = "clear_estop"
REST = "rest"
"""Service of a guard: bring the robot to rest, as at the guard's end (a quadrotor lands), and disarm it."""
GOAL_HOLD = "goal/hold"
"""Service of a policy's or planner's node: make the present position the goal."""

AGENT_SENTENCE = "agent/sentence"
"""What the agent is to have the robot do."""
AGENT_REPORT = "agent/report"
"""What the agent does, and why it stops, a sentence each."""
AGENT_STOP = "agent/stop"
"""Service of the agent: give up the sentence, and hold the position."""

WORLD_FRAME = "odom"
BODY_FRAME = "base_link"
MAP_FRAME = "map"
"""REP-105's frames: ``map`` to ``odom`` to ``base_link``."""

TYPES: dict[str, str] = {
    ODOM: "nav_msgs/msg/Odometry",
    IMU: "sensor_msgs/msg/Imu",
    JOINT_STATES: "sensor_msgs/msg/JointState",
    BATTERY: "sensor_msgs/msg/BatteryState",
    GOAL: "geometry_msgs/msg/PoseStamped",
    GOAL_PATH: "nav_msgs/msg/Path",
    GOAL_ACTIVE: "geometry_msgs/msg/PoseStamped",
    GOAL_DISTANCE: "std_msgs/msg/Float64",
    GOAL_REACHED: "std_msgs/msg/Bool",
    GOAL_REFUSED: "std_msgs/msg/String",
    INSTRUCTION: "std_msgs/msg/String",
    INSTRUCTION_ACTIVE: "std_msgs/msg/String",
    ROTOR_COMMAND: "sensor_msgs/msg/JointState",
    RATES_COMMAND: "geometry_msgs/msg/TwistStamped",
    TWIST_COMMAND: "geometry_msgs/msg/TwistStamped",
    JOINT_COMMAND: "trajectory_msgs/msg/JointTrajectory",
    EXTERNAL_POSE: "geometry_msgs/msg/PoseStamped",
    FLOW: "geometry_msgs/msg/TwistWithCovarianceStamped",
    RANGE: "sensor_msgs/msg/Range",
    OBJECT: "geometry_msgs/msg/PoseStamped",
    PEOPLE: "sensor_msgs/msg/PointCloud2",
    MAP: "nav_msgs/msg/OccupancyGrid",
    GUARD_MODE: "std_msgs/msg/String",
    GUARD_REASON: "std_msgs/msg/String",
    GUARD_INTERVENTIONS: "std_msgs/msg/UInt32",
    LIVE_CHECK: "std_msgs/msg/String",
    POLICY_STEPS: "std_msgs/msg/Int64MultiArray",
    POLICY_HELD: "std_msgs/msg/Float64MultiArray",
    POLICY_FILE: "std_msgs/msg/String",
    ADAPTATION: "std_msgs/msg/String",
    DIAGNOSTICS: "diagnostic_msgs/msg/DiagnosticArray",
    MARKERS: "visualization_msgs/msg/MarkerArray",
    WORLD_MARKERS: "visualization_msgs/msg/MarkerArray",
    MOVED_MARKERS: "visualization_msgs/msg/MarkerArray",
    ROBOT_DESCRIPTION: "std_msgs/msg/String",
    TF: "tf2_msgs/msg/TFMessage",
    TF_STATIC: "tf2_msgs/msg/TFMessage",
    CLOCK: "rosgraph_msgs/msg/Clock",
    REAL_TIME_FACTOR: "std_msgs/msg/Float64",
    DISTURBANCE: "geometry_msgs/msg/WrenchStamped",
    AGENT_SENTENCE: "std_msgs/msg/String",
    AGENT_REPORT: "std_msgs/msg/String",
}
"""Message type by topic; commands have the same type under :data:`POLICY_PREFIX`."""
TELEOP_TYPES: dict[str, str] = {
    TELEOP_TWIST: "geometry_msgs/msg/TwistStamped",
    TELEOP_GRIPPER: "std_msgs/msg/Float64",
    TELEOP_JOINTS: "sensor_msgs/msg/JointState",
    INTERVENE: "std_msgs/msg/Bool",
    POLICY_ALONE: "trajectory_msgs/msg/JointTrajectory",
}
"""Message type by topic of teleoperation: any node that publishes them can teleoperate an arm."""

IMAGE = "image_raw"
DEPTH = "depth"
CAMERA_INFO = "camera_info"
POINTS = "points"
CAMERA_TYPES: dict[str, str] = {
    IMAGE: "sensor_msgs/msg/Image",
    DEPTH: "sensor_msgs/msg/Image",
    CAMERA_INFO: "sensor_msgs/msg/CameraInfo",
    POINTS: "sensor_msgs/msg/PointCloud2",
}
"""Message type by what follows a camera's name in its topics, see :func:`camera_topic`."""
PLAIN_TWIST = "geometry_msgs/msg/Twist"
"""Type that some robots take on ``cmd_vel`` instead: the same without a stamp."""
PLAIN_JOINTS = "std_msgs/msg/Float64MultiArray"
"""Type that some joint controllers take on ``cmd/joints`` instead: targets alone, in the robot file's order."""
SCAN_TYPE = "sensor_msgs/msg/LaserScan"
"""Type of a lidar with one ring, on the topic of its name."""
CLOUD_TYPE = "sensor_msgs/msg/PointCloud2"
"""Type of a lidar with several rings, likewise."""

Quality = Literal["sensor_out", "sensor_in", "sensor_in_reliable", "command", "latched", "event", "tf", "tf_static"]


def in_world(frame: str) -> bool:
    """Return whether a header's ``frame_id``, with or without a robot's prefix, is ``odom``; empty counts as it."""
    return frame.rpartition("/")[2] in ("", WORLD_FRAME)


def message_type(name: str) -> Any:
    """Return the class of a full type such as ``nav_msgs/msg/Odometry``; raise ``UserError`` if it is not installed."""
    package, _, kind = name.partition("/msg/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), kind)
    except ModuleNotFoundError as error:
        raise UserError(
            f"The message type '{name}' is not installed: install the ROS package '{package}',"
            " or pip install 'rlstack[ros]'."
        ) from error
    except AttributeError as error:
        raise UserError(f"'{name}' is not a message type: the package '{package}' has no message '{kind}'.") from error


def type_of(topic: str) -> Any:
    """Return the message class of one of the common topics."""
    return message_type(TYPES[topic] if topic in TYPES else TYPES[topic.removeprefix(POLICY_PREFIX)])


def camera_topic(camera: str, kind: str) -> str:
    """Return the topic of one of :data:`CAMERA_TYPES` of a camera, such as ``camera/image_raw``."""
    return f"{camera}/{kind}"


def quality(use: Quality) -> QoSProfile:
    """Return the quality of service for a use.

    Sensors follow REP-2003: reliable writers, best-effort readers, newest value only. In lock step a lost
    message would stop time, so there the readers are reliable too. Commands are reliable with depth 1;
    a latched topic (guard mode, goal) reaches late subscribers. A latched reader receives from latched writers only.
    Transforms use the settings of tf2's own broadcasters and listeners.
    """
    from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth={"event": 10, "tf": 100, "tf_static": 100}.get(use, 1),
        reliability=ReliabilityPolicy.BEST_EFFORT if use == "sensor_in" else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if use in ("latched", "tf_static") else DurabilityPolicy.VOLATILE,
    )
