"""The topics of teleoperation: any node that publishes them can teleoperate a simulated or a real arm."""

from __future__ import annotations

TWIST = "teleop/twist"
"""Motion of the tool: m/s and rad/s, in ``base_link`` or in the tool's own frame, by ``header.frame_id``."""
GRIPPER = "teleop/gripper"
"""Motion of the gripper: 1 opens at its joints' full speed, -1 closes, 0 holds."""
JOINTS = "teleop/joints"
"""Joint targets, rad or m, by name: what a leader arm sends instead of a twist."""
INTERVENE = "teleop/intervene"
"""Whether the human is in control; otherwise other commands of the arm continue. Latched."""
ALONE = "policy_alone/cmd/joints"
"""Topic of a policy's commands that a human may correct: the arm's teleoperation node forwards them as
``policy/cmd/joints`` while nobody intervenes."""

TYPES: dict[str, str] = {
    TWIST: "geometry_msgs/msg/TwistStamped",
    GRIPPER: "std_msgs/msg/Float64",
    JOINTS: "sensor_msgs/msg/JointState",
    INTERVENE: "std_msgs/msg/Bool",
    ALONE: "trajectory_msgs/msg/JointTrajectory",
}
"""Message type by topic."""
