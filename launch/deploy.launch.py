"""Run a policy: `ros2 launch rlstack deploy.launch.py policy:=... robot:=crazyflie backend:=mujoco`.

A policy or a planner drives a wheeled base: `robot:=turtlebot3_burger`, `policy:=...` or `driver:=astar_dwa`.

Starts what `rlstack up deploy` starts, from the same description (rlstack.bringup.system).
"""

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.launch_file import (
    Argument,
    LaunchFile,
    boolean,
    integer,
    number,
    numbers,
    optional,
    recording,
    words,
)

LAUNCH_FILE = LaunchFile(
    build=checked_deployment,
    arguments=(
        Argument("policy", "The policy file."),
        Argument("driver", "A planner that drives a base instead of the policy, such as astar_dwa."),
        Argument("commander", "Instead of a policy file: external, or a policy server, lerobot://HOST:PORT?...", ""),
        Argument("robot", "A robot's name or file; empty: the policy's, or crazyflie."),
        Argument("backend", "A simulator, a real robot, or topics: the robot's own driver provides them.", "mujoco"),
        Argument("uri", "Where a driver finds its robot, such as serial:///dev/ttyACM0 (real robots only).", ""),
        Argument(
            "world",
            "World (simulators only): warehouse:7, a file, task:7 of the policy's task; empty: a floor.",
            "",
        ),
        Argument("count", "Robots that share the world (simulators only).", "1", integer),
        Argument("namespace", "Namespace of the topics; empty: the robot's name. Several have their own in it.", ""),
        Argument("frame_prefix", "Prefix of the robot's frames, such as cf1/, for several on one /tf.", ""),
        Argument(
            "goal",
            "Where to hover 'x y z', drive 'x y' or bring an arm's tool 'x y z', m in odom; several: from each start.",
            "",
            optional(numbers),
        ),
        Argument(
            "instruction", "What a policy is to do, if it follows instructions; empty: it waits for the topic.", ""
        ),
        Argument("goal_yaw_rad", "Heading to hold at the goal, rad.", "0", number),
        Argument(
            "area", "Area that a base explores, corners 'x y x y' in odom; empty: the floor.", "", optional(numbers)
        ),
        Argument("real_time_factor", "Simulated seconds per second (simulators only).", "1", number),
        Argument("lock_step", "Let time wait for every command (simulators only).", "false", boolean),
        Argument("auto_arm", "Arm automatically; empty: simulators yes, real robots no.", "", optional(boolean)),
        Argument(
            "dry_run", "Everything but the actuators: commands are shown on /diagnostics, not sent.", "false", boolean
        ),
        Argument(
            "tether", "Share of the robot's speeds and geofence that the guard's limits are at most.", "1", number
        ),
        Argument("view", "Show the robots in a browser, whose address is logged.", "false", boolean),
        Argument("rviz", "Show the robot, of several the first, in RViz.", "false", boolean),
        Argument(
            "record", "Record the robots: a folder that does not exist yet, or true for one by the time.", "", recording
        ),
        Argument("noise_seed", "Seed of the simulated sensors' noise.", "0", integer),
        Argument("fallback", "What drives a base when the policy cannot: stop, or a planner such as dwa.", "stop"),
        Argument("with_map", "Start the map node of a base too.", "false", boolean),
        Argument("people", "A base's source of people: scan (the people node, if needed) or topic.", "scan"),
        Argument("odometry", "Estimate a quadrotor's odometry: pose or flow; empty: the robot publishes it.", ""),
        Argument("remap", "Topic remappings: 'ours:=theirs ours:=theirs'.", "", words),
        Argument("cmd_vel_type", "Message type of a base's cmd_vel: TwistStamped or Twist.", "TwistStamped"),
        Argument(
            "cmd_joints_type",
            "Message type of an arm's cmd/joints: JointTrajectory or Float64MultiArray.",
            "JointTrajectory",
        ),
        Argument("scan_frame", "Another frame name in the headers of a base's scans.", ""),
        Argument("zero_is_far", "Whether the driver of a base's lidar reports 0 for no return.", "false", boolean),
        Argument(
            "use_sim_time",
            "Let the nodes' clocks follow /clock, beside another simulator (topics); beside rlstack's they always do.",
            "false",
            boolean,
        ),
        Argument("params_file", "A ROS 2 parameters file for the nodes, such as tighter limits of the guard.", ""),
        Argument("teleop", "Let an operator correct an arm, by teleop/twist, teleop/intervene.", "false", boolean),
        Argument("adapt", "Adapt a quadrotor's policy in flight to what it is, such as a payload.", "false", boolean),
        Argument("agent", "Start the agent, too, which takes sentences on agent/sentence.", "false", boolean),
        Argument("places", "The agent's named places, a YAML file.", ""),
        Argument("model_url", "OpenAI-compatible endpoint of a language model that plans for the agent.", ""),
        Argument("model", "The model's name there.", ""),
        Argument("force", "Run the policy without a passing verification.", "false", boolean),
    ),
)

generate_launch_description = LAUNCH_FILE.description
