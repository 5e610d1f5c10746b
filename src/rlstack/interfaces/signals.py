"""The catalogue of signals: what a named array means and which topic and field it comes from or goes to.

It is the only place that ties a name to a topic, a unit and a frame. Policy files quote it, and loading
a policy checks the quote against it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.errors import unknown_name


@dataclass(frozen=True)
class Signal:
    """A named physical quantity.

    Args:
        name: What policies and backends call it.
        shape: Of one robot's value; ``"rotors"`` stands for the robot's number of rotors.
        unit: SI.
        frame: The frame it is expressed in; empty where none applies.
        topic: Relative topic name under the robot's namespace.
        type: ROS message type.
        field: Dotted path in the message; vectors are read as x, y, z and quaternions as x, y, z, w.
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
_IMU = ("imu", "sensor_msgs/msg/Imu")
_JOINTS = ("joint_states", "sensor_msgs/msg/JointState")

SENSED: dict[str, Signal] = {
    s.name: s
    for s in (
        Signal("position", (3,), "m", "odom", *_ODOM, "pose.pose.position"),
        Signal("orientation", (4,), "quaternion xyzw", "base_link in odom", *_ODOM, "pose.pose.orientation"),
        Signal("linear_velocity", (3,), "m/s", "base_link", *_ODOM, "twist.twist.linear"),
        Signal("angular_velocity", (3,), "rad/s", "base_link", *_ODOM, "twist.twist.angular"),
        Signal("linear_acceleration", (3,), "m/s^2", "base_link", *_IMU, "linear_acceleration"),
        Signal("measured_rotor_speed", ("rotors",), "rad/s", "", *_JOINTS, "velocity"),
        Signal("goal_position", (3,), "m", "odom", *_GOAL, "pose.position"),
        Signal("goal_orientation", (4,), "quaternion xyzw", "base_link in odom", *_GOAL, "pose.orientation"),
    )
}
"""What can be fed to a policy."""

COMMANDED: dict[str, Signal] = {
    s.name: s
    for s in (Signal("rotor_speed", ("rotors",), "rad/s", "", "cmd/rotors", "sensor_msgs/msg/JointState", "velocity"),)
}
"""What a policy can command; the policy node sends it under ``policy/``, the guard under the topic itself."""


def sensed(name: str) -> Signal:
    """Return the sensed signal called ``name``; raise ``UserError`` with the nearest names if no topic gives it."""
    if name not in SENSED:
        raise unknown_name("policy input (no topic gives it)", name, SENSED)
    return SENSED[name]


def commanded(name: str) -> Signal:
    """Return the commanded signal called ``name``; raise ``UserError`` with the nearest names if no topic takes it."""
    if name not in COMMANDED:
        raise unknown_name("policy output (no topic takes it)", name, COMMANDED)
    return COMMANDED[name]
