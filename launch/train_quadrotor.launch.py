"""Train, then fly: `ros2 launch rlstack train_quadrotor.launch.py`.

A train node publishes its progress on train/progress; when it ends well, the new policy is verified, which takes
minutes. If it passes, the recipe's robot starts in MuJoCo and flies it. Starts what `rlstack up train` starts, from the
same description (rlstack.bringup.system).
"""

from rlstack.bringup.launch_file import Argument, LaunchFile, boolean, integer, numbers, optional, words
from rlstack.bringup.train import train_system

LAUNCH_FILE = LaunchFile(
    build=train_system,
    arguments=(
        Argument("recipe", "A training recipe's name or file.", "quadrotor_hover"),
        Argument("out", "The run's folder, which must not exist; empty: the next free runs/<recipe>-NNN.", ""),
        Argument("seed", "Overrides the recipe's.", "", optional(integer)),
        Argument("overrides", "More recipe fields: 'field=value field=value'.", "", words),
        Argument("fly", "Fly the new policy after successful training.", "true", boolean),
        Argument("robot", "The robot to fly: a name or file; empty: the recipe's.", ""),
        Argument("backend", "The simulator to fly in.", "mujoco"),
        Argument("namespace", "Namespace of the robot's topics; empty: the robot's name.", ""),
        Argument("goal", "Where to hover: 'x y z' in metres, in the frame odom; empty: 0 0 1.", "", optional(numbers)),
        Argument("params_file", "Parameters file for the nodes of that run, such as tighter limits of the guard.", ""),
        Argument("force", "Fly the new policy without verifying it.", "false", boolean),
    ),
)

generate_launch_description = LAUNCH_FILE.description
