"""A workspace of one's own: a Python and ROS 2 package with a robot, a task, a recipe, a launch file and a test."""

from __future__ import annotations

from pathlib import Path

from rlstack.bringup.scaffold.recipe_file import recipe_text
from rlstack.bringup.scaffold.robot_file import robot_text
from rlstack.bringup.scaffold.task_file import scaffold_of, task_text, usable_name
from rlstack.errors import UserError
from rlstack.files import check_folder, write_atomically
from rlstack.robots import load_robot
from rlstack.robots.spec import robot_names
from rlstack.training.recipe import load_recipe

_FILES = {
    "README.md": """\
# NAME

A robot, a task and a recipe of your own for rlstack. Four commands, in this folder:

```sh
pip install --no-build-isolation -e .     # NAME_robot and NAME_task are then known by name
rlstack train recipes/NAME.yaml --out runs/first
rlstack verify runs/first/policy.onnx --robot NAME_robot
rlstack up deploy --policy runs/first/policy.onnx --robot NAME_robot
```

- `NAME/robots/NAME_robot.yaml`: the robot. It has the values of SOURCE: measure yours, as its comments say.
- `NAME/tasks/NAME_task.py`: what it learns. `recipes/NAME.yaml`: with which settings.
- `test/`: `python -m pytest` trains for a moment.
- In a ROS 2 workspace, with this folder in its `src`: `colcon build --packages-select NAME`, and then
  `ros2 launch NAME deploy.launch.py policy:=runs/first/policy.onnx`.
""",
    "package.xml": """\
<?xml version="1.0"?>
<package format="3">
  <name>NAME</name>
  <version>0.1.0</version>
  <description>A robot and its policies for rlstack.</description>
  <maintainer email="you@example.org">you</maintainer>
  <license>TODO</license>

  <exec_depend>rlstack</exec_depend>
  <test_depend>python3-pytest</test_depend>

  <export>
    <build_type>ament_python</build_type>
  </export>
</package>
""",
    "setup.py": """\
\"\"\"For pip and for colcon alike.\"\"\"

from glob import glob

from setuptools import find_packages, setup

setup(
    name="NAME",
    version="0.1.0",
    packages=find_packages(include=["NAME", "NAME.*"]),
    package_data={"NAME.robots": ["*.yaml"]},
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/NAME"]),
        ("share/NAME", ["package.xml"]),
        ("share/NAME/launch", glob("launch/*.launch.py")),
        ("share/NAME/recipes", glob("recipes/*.yaml")),
    ],
    entry_points={
        # every robot file in this package is known by its name
        "rlstack.robots": ["NAME = NAME.robots"],
        # one line for each task
        "rlstack.tasks": ["NAME_task = NAME.tasks.NAME_task:TASK"],
    },
)
""",
    "resource/NAME": "",
    "NAME/__init__.py": "",
    "NAME/robots/__init__.py": "",
    "NAME/tasks/__init__.py": "",
    "launch/deploy.launch.py": """\
\"\"\"Run a policy on this package's robot: `ros2 launch NAME deploy.launch.py policy:=runs/first/policy.onnx`.

`ros2 launch NAME deploy.launch.py --show-args` lists the other arguments, which are those of rlstack's own file.
\"\"\"

from rlstack.bringup.launch_file import shipped

LAUNCH_FILE = shipped("deploy", robot="NAME_robot")

generate_launch_description = LAUNCH_FILE.description
""",
    "test/test_NAME.py": """\
\"\"\"The recipe trains the task on the robot, for a moment, and gives a policy file.\"\"\"

from pathlib import Path

from rlstack.training.command import parse_recipe
from rlstack.training.run import start

RECIPE = Path(__file__).parents[1] / "recipes" / "NAME.yaml"
SHORT = SHORT_OPTIONS


def test_the_recipe_trains(tmp_path):
    recipe = parse_recipe(str(RECIPE), SHORT).recipe
    assert (recipe.robot, recipe.task) == ("NAME_robot", "NAME_task")
    result = start(recipe, tmp_path / "run")
    assert result.finished and result.policy.is_file()
""",
    ".gitignore": "__pycache__/\n*.egg-info/\nbuild/\ninstall/\nlog/\nruns/\n",
}
"""By path; NAME is the package's."""


def write_workspace(folder: Path, kind: str = "", source: str = "") -> list[Path]:
    """Write a workspace and return its files.

    Args:
        folder: Where, which must not exist; its name is the package's.
        kind: Of its robot; default: the source's, or quadrotor.
        source: The robot whose values it starts with, by name or file; default: one of the kind.

    Raises:
        UserError: The folder exists or cannot be made, or name, kind or source is refused.
    """
    name = folder.absolute().name
    usable_name(name, ["rlstack"], "package")
    usable_name(f"{name}_robot", robot_names(), "robot")
    if folder.exists():
        raise UserError(f"{folder} exists already and is never overwritten: choose another FOLDER.")
    check_folder(folder.parent, "FOLDER")
    source = source or scaffold_of(kind or "quadrotor").robot
    found = load_robot(source).kind
    if kind and found != kind:
        raise UserError(f"--from {source}: it is a {found}, and --kind says {kind}. Leave one of them out.")
    scaffold = scaffold_of(found)
    task, robot, recipe = f"{name}_task", f"{name}_robot", scaffold.recipe
    words = {"SHORT_OPTIONS": _listed(scaffold.short), "SOURCE": source, "NAME": name}
    texts = {_filled(path, words): _filled(text, words) for path, text in _FILES.items()}
    texts[f"{name}/robots/{robot}.yaml"] = robot_text(robot, source)
    texts[f"{name}/tasks/{task}.py"] = task_text(task, load_recipe(recipe).task)
    texts[f"recipes/{name}.yaml"] = recipe_text(name, recipe, task, robot, f"recipes/{name}.yaml")
    for path, text in texts.items():
        write_atomically(folder / path, text)
    return [folder / path for path in texts]


def _filled(text: str, words: dict[str, str]) -> str:
    for word, with_what in words.items():
        text = text.replace(word, with_what)
    return text


def _listed(options: tuple[str, ...]) -> str:
    """Return options as Python source, one pair on each line."""
    pairs = [f"    {key!r}, {given!r}," for key, given in zip(options[::2], options[1::2])]
    return "\n".join(["[", *pairs, "]"]).replace("'", '"')
