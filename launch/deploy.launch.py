"""Fly a policy: `ros2 launch rlstack deploy.launch.py policy:=... robot:=crazyflie backend:=mujoco`.

Starts what `rlstack up deploy` starts, from the same description (rlstack.bringup.system).
"""

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.launching import Argument, LaunchFile, boolean, integer, maybe_boolean, number, numbers

LAUNCH_FILE = LaunchFile(
    build=checked_deployment,
    arguments=(
        Argument("policy", "The policy file.", default=None),
        Argument("robot", "A robot's name or file.", "crazyflie"),
        Argument("backend", "What stands behind the topics: a simulator or a real robot.", "mujoco"),
        Argument("world", "World to fly in, such as warehouse:7, or a file (simulators only); empty: a floor.", ""),
        Argument("count", "Robots that share the world (simulators only).", "1", integer),
        Argument("namespace", "Of the robot's topics; empty: the robot's name. Several have their own in it.", ""),
        Argument("goal", "Where to hover: 'x y z' in metres, in odom; several: from each start.", "0 0 1", numbers),
        Argument("goal_yaw_rad", "The heading to hold there, rad.", "0", number),
        Argument("real_time_factor", "Simulated seconds per second (simulators only).", "1", number),
        Argument("lock_step", "Let time wait for every command (simulators only).", "false", boolean),
        Argument("auto_arm", "Arm without being asked; empty: simulators yes, real robots no.", "", maybe_boolean),
        Argument("noise_seed", "Of the simulated sensors' noise.", "0", integer),
        Argument("force", "Fly although the policy has no passing verification beside it.", "false", boolean),
    ),
)

generate_launch_description = LAUNCH_FILE.description
