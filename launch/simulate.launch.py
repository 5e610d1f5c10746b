"""Robots to control yourself: `ros2 launch rlstack simulate.launch.py robot:=crazyflie world:=warehouse:7 count:=4`.

Starts what `rlstack up simulate` starts, from the same description (rlstack.bringup.system).
"""

from rlstack.bringup.launch_file import Argument, LaunchFile, boolean, integer, number
from rlstack.bringup.system import simulate_system

LAUNCH_FILE = LaunchFile(
    build=simulate_system,
    arguments=(
        Argument("robot", "A robot's name or file.", "crazyflie"),
        Argument("backend", "The simulator.", "mujoco"),
        Argument("world", "World, such as warehouse:7, or a file; empty: a floor.", ""),
        Argument("count", "Robots that share the world.", "1", integer),
        Argument("namespace", "Namespace of the topics; empty: the robot's name. Several have their own in it.", ""),
        Argument("frame_prefix", "Prefix of the robot's frames, such as cf1/, for several on one /tf.", ""),
        Argument("start_height_m", "Start in the air, hovering, m.", "0", number),
        Argument("real_time_factor", "Simulated seconds per second.", "1", number),
        Argument("lock_step", "Let time wait for every command.", "false", boolean),
        Argument("view", "Show the robots in a browser, whose address is logged.", "false", boolean),
        Argument("rviz", "Show the robot, of several the first, in RViz.", "false", boolean),
        Argument("noise_seed", "Seed of the simulated sensors' noise.", "0", integer),
        Argument("params_file", "A ROS 2 parameters file for the nodes, such as tighter limits of the guard.", ""),
    ),
)

generate_launch_description = LAUNCH_FILE.description
