"""Train a wheeled base, then drive: `ros2 launch rlstack train_base.launch.py task:=base_navigation`.

A train node publishes its progress on train/progress; when it ends well, the new policy is verified, which takes
minutes. If it passes, the recipe's robot starts in MuJoCo and the policy drives it. Starts what `rlstack up train`
starts, from the same description (rlstack.bringup.system).
"""

from typing import Any

from rlstack.bringup.launch_file import Argument, LaunchFile, boolean, integer, numbers, optional, words
from rlstack.bringup.node_process import System
from rlstack.bringup.train import train_system


def build(task: str, recipe: str, **options: Any) -> System:
    """Return the system; a task's default recipe has its name."""
    return train_system(recipe or task, **options)


LAUNCH_FILE = LaunchFile(
    build=build,
    arguments=(
        Argument("task", "What to learn, by the recipe that ships for it, such as base_navigation.", "base_navigation"),
        Argument("recipe", "Another recipe's name or file; empty: the task's own.", ""),
        Argument("out", "The run's folder, which must not exist; empty: the next free runs/<recipe>-NNN.", ""),
        Argument("seed", "Overrides the recipe's.", "", optional(integer)),
        Argument("overrides", "More recipe fields: 'field=value field=value'.", "", words),
        Argument("fly", "Drive with the new policy after successful training.", "true", boolean),
        Argument("robot", "The robot to drive: a name or file; empty: the recipe's.", ""),
        Argument("backend", "The simulator to drive in.", "mujoco"),
        Argument("world", "The world to drive in, such as clutter:1000000; empty: a floor.", ""),
        Argument("namespace", "Namespace of the robot's topics; empty: the robot's name.", ""),
        Argument(
            "goal",
            "Where to drive: 'x y' in metres, in the frame odom; empty: the world's goal.",
            "",
            optional(numbers),
        ),
        Argument("params_file", "Parameters file for the nodes of that run, such as tighter limits of the guard.", ""),
        Argument("force", "Drive with the new policy without verifying it.", "false", boolean),
    ),
)

generate_launch_description = LAUNCH_FILE.description
