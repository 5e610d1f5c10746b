"""Run a policy: `ros2 launch rlstack deploy.launch.py policy:=... robot:=crazyflie backend:=mujoco`.

A wheeled base is driven by a policy, `robot:=turtlebot3 policy:=...`, or by a planner, `driver:=astar_dwa`.

Starts what `rlstack up deploy` starts, from the same description (rlstack.bringup.system).
"""

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.launch_file import (
    Argument,
    LaunchFile,
    boolean,
    integer,
    maybe_boolean,
    maybe_numbers,
    number,
    words,
)

LAUNCH_FILE = LaunchFile(
    build=checked_deployment,
    arguments=(
        Argument("policy", "The policy file."),
        Argument("driver", "A planner that drives a base in the policy's stead, such as astar_dwa."),
        Argument("robot", "A robot's name or file.", "crazyflie"),
        Argument("backend", "A simulator, a real robot, or topics: a driver of the robot's own speaks them.", "mujoco"),
        Argument("world", "World to fly in, such as warehouse:7, or a file (simulators only); empty: a floor.", ""),
        Argument("count", "Robots that share the world (simulators only).", "1", integer),
        Argument("namespace", "Of the robot's topics; empty: the robot's name. Several have their own in it.", ""),
        Argument(
            "goal",
            "Where to hover 'x y z', drive 'x y' or bring an arm's tool 'x y z', m in odom; several: from each start.",
            "",
            maybe_numbers,
        ),
        Argument("goal_yaw_rad", "The heading to hold there, rad.", "0", number),
        Argument("area", "What a base is to explore, corners 'x y x y' in odom; empty: the floor.", "", maybe_numbers),
        Argument("real_time_factor", "Simulated seconds per second (simulators only).", "1", number),
        Argument("lock_step", "Let time wait for every command (simulators only).", "false", boolean),
        Argument("auto_arm", "Arm without being asked; empty: simulators yes, real robots no.", "", maybe_boolean),
        Argument("noise_seed", "Of the simulated sensors' noise.", "0", integer),
        Argument("fallback", "What drives a base when the policy cannot: stop, or a planner such as dwa.", "stop"),
        Argument("with_map", "Start the map node of a base too.", "false", boolean),
        Argument(
            "people", "Who tells a base of people: scan: the people node, if they are wanted; topic: another.", "scan"
        ),
        Argument("remap", "Topics of other names: 'ours:=theirs ours:=theirs'.", "", words),
        Argument("cmd_vel_type", "What a base takes on cmd_vel: TwistStamped or Twist.", "TwistStamped"),
        Argument(
            "cmd_joints_type",
            "What an arm takes on cmd/joints: JointTrajectory or Float64MultiArray.",
            "JointTrajectory",
        ),
        Argument("scan_frame", "Another name of the frame in the headers of a base's scans.", ""),
        Argument("zero_is_far", "Whether the driver of a base's lidar says 0 for nothing.", "false", boolean),
        Argument("teleop", "Let a human correct an arm's policy, by teleop/twist, teleop/intervene.", "false", boolean),
        Argument("force", "Fly although the policy has no passing verification beside it.", "false", boolean),
    ),
)

generate_launch_description = LAUNCH_FILE.description
