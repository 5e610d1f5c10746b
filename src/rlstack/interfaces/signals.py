"""The catalogue of signals: the meaning of each named array, and the topic and field that carries it.

It alone defines a name's topic, unit and frame. Policy files copy its entries, and loading a policy compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.errors import unknown_name


@dataclass(frozen=True)
class Signal:
    """A named physical quantity.

    Args:
        name: Its name in policies and backends.
        shape: Shape for one robot; a name in :data:`ROBOT_SIZES` is a size from the robot's file, one in
            :data:`DYNAMIC` a size that may vary between calls.
        unit: SI.
        frame: The frame it is expressed in; empty where none applies.
        topic: Relative topic name under the robot's namespace; empty for values from the robot file.
        type: ROS message type; empty likewise.
        field: Dotted path in the message, with ``[]`` after a list whose elements are all read; vectors are read as
            x, y, z and quaternions as x, y, z, w, a number as one element. Several numbers are given with ", " between.
    """

    name: str
    shape: tuple[int | str, ...]
    unit: str
    frame: str
    topic: str
    type: str
    field: str


_ODOM = ("odom", "nav_msgs/msg/Odometry")
_GOAL = ("goal", "geometry_msgs/msg/PoseStamped")
_PATH = ("goal_path", "nav_msgs/msg/Path")
_IMU = ("imu", "sensor_msgs/msg/Imu")
_JOINTS = ("joint_states", "sensor_msgs/msg/JointState")
_BATTERY = ("battery", "sensor_msgs/msg/BatteryState")
_SCAN = ("scan", "sensor_msgs/msg/LaserScan")
_PEOPLE = ("people", "sensor_msgs/msg/PointCloud2")
_TWIST = ("cmd_vel", "geometry_msgs/msg/TwistStamped")
_RATES = ("cmd/rates", "geometry_msgs/msg/TwistStamped")
_OBJECT = ("object", "geometry_msgs/msg/PoseStamped")
_MAP = ("map", "nav_msgs/msg/OccupancyGrid")
_INSTRUCTION = ("instruction", "std_msgs/msg/String")

MOTION = (
    "position",
    "orientation",
    "linear_velocity",
    "angular_velocity",
    "linear_acceleration",
    "imu_angular_velocity",
)
"""Signals of odometry and IMU, which every mobile robot has."""

IMAGE_CAMERAS = ("wrist", "scene", "front")
"""Cameras whose images are signals, ``NAME_image`` and ``NAME_image_age``: on the hand, facing the table, and on a
mobile robot, looking ahead."""

INSTRUCTION_BYTES = 128
"""Longest instruction, bytes of UTF-8."""

ROBOT_SIZES = {
    "rotors": True,
    "joints": True,
    "rays": False,
    **{f"{camera}_{size}": False for camera in IMAGE_CAMERAS for size in ("rows", "columns")},
}
"""Sizes in shapes that depend on the robot, and whether its elements have names; ``rays`` are those of its lidar
``scan``, rows and columns those of its camera's images. See
:func:`rlstack.interfaces.kind_signals.element_names`."""

DYNAMIC = {"points": 2, "people": 1, "map_rows": 2, "map_columns": 2}
"""Sizes in shapes that may vary between calls, with their minimum; signals that share one have the same size in every
call."""

FAR_M = 1000.0
"""Position along x in ``odom`` of the placeholder person when nobody is seen."""

INCREASING = frozenset({"path_time"})
"""Signals whose values must increase along their last axis."""


def _picture(camera: str) -> tuple[Signal, Signal]:
    """Return the signals of a camera's images: the newest one, and its age when the policy acts."""
    source, shape = (f"{camera}/image_raw", "sensor_msgs/msg/Image"), (f"{camera}_rows", f"{camera}_columns", 3)
    image = Signal(f"{camera}_image", shape, "0 to 255, RGB", f"{camera}_optical_frame", *source, "data")
    return image, Signal(f"{camera}_image_age", (1,), "s", "", *source, "header.stamp")


SENSED: dict[str, Signal] = {
    s.name: s
    for s in (
        Signal("position", (3,), "m", "odom", *_ODOM, "pose.pose.position"),
        Signal("orientation", (4,), "quaternion xyzw", "base_link in odom", *_ODOM, "pose.pose.orientation"),
        Signal("linear_velocity", (3,), "m/s", "base_link", *_ODOM, "twist.twist.linear"),
        Signal("angular_velocity", (3,), "rad/s", "base_link", *_ODOM, "twist.twist.angular"),
        Signal("linear_acceleration", (3,), "m/s^2", "base_link", *_IMU, "linear_acceleration"),
        Signal("imu_angular_velocity", (3,), "rad/s", "base_link", *_IMU, "angular_velocity"),
        Signal("measured_rotor_speed", ("rotors",), "rad/s", "", *_JOINTS, "velocity"),
        Signal("joint_position", ("joints",), "rad, m where it slides", "", *_JOINTS, "position"),
        Signal("joint_velocity", ("joints",), "rad/s, m/s where it slides", "", *_JOINTS, "velocity"),
        Signal("scan", ("rays",), "m", "scan_link", *_SCAN, "ranges"),
        Signal("people_position", ("people", 3), "m", "odom", *_PEOPLE, "x, y, z"),
        Signal("people_velocity", ("people", 3), "m/s", "odom", *_PEOPLE, "vx, vy"),
        Signal("people_radius", ("people",), "m", "", *_PEOPLE, "radius"),
        Signal("map", ("map_rows", "map_columns"), "-1 unknown, 0 free to 100 occupied", "odom", *_MAP, "data"),
        Signal("map_resolution", (1,), "m", "", *_MAP, "info.resolution"),
        Signal("map_origin", (3,), "m", "odom", *_MAP, "info.origin.position"),
        Signal("object_position", (3,), "m", "odom", *_OBJECT, "pose.position"),
        Signal("object_orientation", (4,), "quaternion xyzw", "object in odom", *_OBJECT, "pose.orientation"),
        Signal("battery_voltage", (1,), "V", "", *_BATTERY, "voltage"),
        Signal("battery_current", (1,), "A, below 0 while it discharges", "", *_BATTERY, "current"),
        Signal("battery_percentage", (1,), "0 to 1", "", *_BATTERY, "percentage"),
        Signal("goal_position", (3,), "m", "odom", *_GOAL, "pose.position"),
        Signal("goal_orientation", (4,), "quaternion xyzw", "base_link in odom", *_GOAL, "pose.orientation"),
        Signal("path_time", ("points",), "s", "", *_PATH, "poses[].header.stamp"),
        Signal("path_position", ("points", 3), "m", "odom", *_PATH, "poses[].pose.position"),
        Signal(
            "path_orientation",
            ("points", 4),
            "quaternion xyzw",
            "base_link in odom",
            *_PATH,
            "poses[].pose.orientation",
        ),
        Signal("instruction", (INSTRUCTION_BYTES,), "UTF-8 bytes, 0 after its end", "", *_INSTRUCTION, "data"),
        *(signal for camera in IMAGE_CAMERAS for signal in _picture(camera)),
    )
}
"""Sensed signals. ``path_time`` is each pose's stamp minus that of the observation that the step answers;
``scan`` has a value for each ray of the robot's lidar ``scan``, see :mod:`rlstack.interfaces.scan_messages`; if nobody
is seen, there is one placeholder person, too far to matter, see :mod:`rlstack.interfaces.people_messages`. An image is
uint8, which a graph receives as float32 of the same values; its age is the stamp of the observation that the step
answers minus its own, see :mod:`rlstack.interfaces.image_reader`. An instruction is text, of which a graph receives the
bytes as float32, see :mod:`rlstack.interfaces.instruction`."""

ROBOT_FILE: dict[str, Signal] = {
    s.name: s
    for s in (
        Signal("rotor_position", ("rotors", 3), "m", "base_link", "", "", "rotors[].position_m"),
        Signal("rotor_yaw_sign", ("rotors",), "-1 or 1", "base_link", "", "", "rotors[].yaw_torque_sign"),
        Signal("rotor_speed_min", (1,), "rad/s", "", "", "", "rotor_model.speed_min_rad_s"),
        Signal("rotor_speed_max", (1,), "rad/s", "", "", "", "rotor_model.speed_max_rad_s"),
        Signal(
            "rotor_thrust_coefficients", (3,), "N, N s/rad, N s^2/rad^2", "", "", "", "rotor_model.thrust_coefficients"
        ),
    )
}
"""Inputs that describe the present robot to a policy for a family of robots, in the robot file's order; they have no
topic.
"""

COMMANDED: dict[str, Signal] = {
    s.name: s
    for s in (
        Signal("rotor_speed", ("rotors",), "rad/s", "", "cmd/rotors", "sensor_msgs/msg/JointState", "velocity"),
        Signal(
            "rates_thrust",
            (4,),
            "rad/s, rad/s, rad/s, m/s^2",
            "base_link",
            *_RATES,
            "twist.angular.x, twist.angular.y, twist.angular.z, twist.linear.z",
        ),
        Signal("twist", (2,), "m/s, rad/s", "base_link", *_TWIST, "twist.linear.x, twist.angular.z"),
        Signal(
            "planar_twist",
            (3,),
            "m/s, m/s, rad/s",
            "base_link",
            *_TWIST,
            "twist.linear.x, twist.linear.y, twist.angular.z",
        ),
        Signal(
            "joint_target",
            ("joints",),
            "rad, m where it slides",
            "",
            "cmd/joints",
            "trajectory_msgs/msg/JointTrajectory",
            "points[].positions",
        ),
        Signal("waypoint", (3,), "m", "odom", *_GOAL, "pose.position"),
    )
}
"""Commands of policies; the policy node publishes them under ``policy/``, the guard under the topic itself.
``rates_thrust`` is the roll, pitch and yaw rate, and the collective thrust per mass along the body's z."""


def camera_of(signal: Signal) -> str:
    """Return the name of the camera of an image signal or image age; empty for other signals."""
    camera, _, kind = signal.topic.partition("/")
    return camera if camera in IMAGE_CAMERAS and kind == "image_raw" else ""


def sensed(name: str) -> Signal:
    """Return the sensed signal called ``name``; raise ``UserError`` with the nearest names if no topic gives it."""
    if name not in SENSED:
        raise unknown_name("policy input (no topic gives it)", name, SENSED)
    return SENSED[name]


def signal_named(name: str) -> Signal:
    """Return the sensed or commanded signal called ``name``; raise ``KeyError`` if there is none."""
    return SENSED.get(name) or COMMANDED[name]


def fed(name: str) -> Signal:
    """Return the input ``name`` of a policy for a family: a sensed signal, or one from the robot file.

    Raises:
        UserError: There is none; with the nearest names.
    """
    if name in ROBOT_FILE:
        return ROBOT_FILE[name]
    if name not in SENSED:
        raise unknown_name("policy input (no topic and no robot file gives it)", name, {**SENSED, **ROBOT_FILE})
    return SENSED[name]


def commanded(name: str) -> Signal:
    """Return the commanded signal called ``name``; raise ``UserError`` with the nearest names if no topic takes it."""
    if name not in COMMANDED:
        raise unknown_name("policy output (no topic takes it)", name, COMMANDED)
    return COMMANDED[name]
