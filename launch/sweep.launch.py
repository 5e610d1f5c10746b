"""Find better settings of a recipe: `ros2 launch rlstack sweep.launch.py recipe:=quadrotor_hover vary:='...'`.

Runs what `rlstack sweep` runs, without ROS nodes.
"""

from rlstack.bringup.launch_file import Argument, LaunchFile, boolean, integer, optional, words
from rlstack.bringup.sweep.system import sweep_system

LAUNCH_FILE = LaunchFile(
    build=sweep_system,
    arguments=(
        Argument("recipe", "A training recipe's name or file.", "quadrotor_hover"),
        Argument("vary", "Settings and their ranges: 'learning_rate=log:1e-4:1e-2 envs=64:512'.", "", words),
        Argument("set", "Recipe fields that all trainings share: 'field=value field=value'.", "", words),
        Argument("trials", "Number of trials; empty: 40, of a grid all its points.", "", optional(integer)),
        Argument("seeds", "Trainings of each trial.", "1", integer),
        Argument("tests", "Trainings in the test of the best settings.", "5", integer),
        Argument("search", "random, tpe or grid; of a population pbt or pb2.", "tpe"),
        Argument("population", "Members of a population, with pbt and pb2.", "8", integer),
        Argument("generations", "Parts of a training after which members go on from better ones.", "10", integer),
        Argument("prune", "none or asha.", "none"),
        Argument("figure", "What is compared, as in training.json.", "success"),
        Argument("lower", "Whether a lower figure is better, such as an error.", "false", boolean),
        Argument("constraint", "Bounds that the best one keeps: 'cpu_seconds<=60 lost<=0.1'.", "", words),
        Argument("jobs", "Trainings at a time; 0: as many as there are processors for.", "0", integer),
        Argument("ray", "Address of a Ray cluster, such as local; empty: without Ray.", ""),
        Argument("out", "The sweep's folder; empty: the next free sweeps/<recipe>-NNN.", ""),
        Argument("resume", "Folder of a sweep to go on with; the recipe and what is varied are its own.", ""),
    ),
)

generate_launch_description = LAUNCH_FILE.description
