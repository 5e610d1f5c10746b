"""The topics of teleoperation: whoever publishes these is a teleoperator, of a simulated arm as of a real one."""

from __future__ import annotations

TWIST = "teleop/twist"
"""How the tool is to move: m/s and rad/s, in ``base_link`` or in the tool's own frame, as ``header.frame_id`` says."""
GRIPPER = "teleop/gripper"
"""What the gripper is to do: 1 opens at its joints' full speed, -1 closes, 0 leaves it."""
JOINTS = "teleop/joints"
"""Where the joints are to be, rad or m, by name: what a leader arm sends instead of a twist."""
INTERVENE = "teleop/intervene"
"""Whether the human leads; while not, whatever else commands the arm goes on. Latched."""
ALONE = "policy_alone/cmd/joints"
"""Where a policy sends its commands that a human may correct: the arm's teleoperation node passes them on as
``policy/cmd/joints`` while nobody intervenes."""

TYPES: dict[str, str] = {
    TWIST: "geometry_msgs/msg/TwistStamped",
    GRIPPER: "std_msgs/msg/Float64",
    JOINTS: "sensor_msgs/msg/JointState",
    INTERVENE: "std_msgs/msg/Bool",
    ALONE: "trajectory_msgs/msg/JointTrajectory",
}
"""Message type by topic."""
