"""The commands `rlstack new robot`, `new task`, `new recipe` and `init`: options and entry points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rlstack.errors import UserError
from rlstack.files import check_folder, write_atomically

_Kind = Annotated[str, tyro.conf.arg(metavar="KIND")]
_Source = Annotated[str, tyro.conf.arg(name="from", metavar="NAME")]
_Part = Annotated[str, tyro.conf.arg(metavar="NAME|FILE")]


@dataclass(frozen=True)
class NewRobot:
    """Write a robot file to start from, NAME.yaml, in this folder.

    It works as it is, with the values of another robot; its comments say how to measure your own. Nothing is
    overwritten.
    """

    name: tyro.conf.Positional[str]
    """Of the robot: lower-case letters, digits and _."""
    kind: _Kind = ""
    """quadrotor, wheeled_base, manipulator or quadruped; default: quadrotor."""
    from_: _Source = ""
    """The robot whose values it starts with, a name or a file; default: one of the kind."""

    def run(self) -> int:
        """Write the file and print what comes next."""
        from rlstack.bringup.scaffold.robot_file import robot_text
        from rlstack.bringup.scaffold.task_file import scaffold_of, usable_name
        from rlstack.robots import load_robot
        from rlstack.robots.spec import robot_names

        usable_name(self.name, robot_names(), "robot")
        source = self.from_ or scaffold_of(self.kind or "quadrotor").robot
        kind = load_robot(source).kind
        if self.kind and kind != self.kind:
            raise UserError(f"--from {source}: it is a {kind}, and --kind says {self.kind}. Leave one of them out.")
        path = write_new(Path(f"{self.name}.yaml"), robot_text(self.name, source))
        recipe = scaffold_of(kind).recipe
        say(
            path,
            "replace its values by your robot's",
            f"rlstack model {path}",
            f"rlstack train {recipe} --robot {path}",
        )
        return 0


@dataclass(frozen=True)
class NewTask:
    """Write a task to start from, NAME.py, in this folder: another task with one reward term more.

    It trains as it is; its comments say what each part is for. Nothing is overwritten.
    """

    name: tyro.conf.Positional[str]
    """Of the task: lower-case letters, digits and _."""
    kind: _Kind = ""
    """For quadrotor, wheeled_base, manipulator or quadruped; default: quadrotor."""
    from_: _Source = ""
    """The task that it extends; default: one for the kind."""

    def run(self) -> int:
        """Write the file and print what comes next."""
        from rlstack.bringup.scaffold.task_file import scaffold_of, task_text, usable_name
        from rlstack.tasks import TASKS
        from rlstack.training.recipe import load_recipe

        usable_name(self.name, TASKS.names(), "task")
        source = self.from_ or load_recipe(scaffold_of(self.kind or "quadrotor").recipe).task
        path = write_new(Path(f"{self.name}.py"), task_text(self.name, source))
        recipe = Path(f"{self.name}.yaml")
        name = f"{self.name}_recipe" if recipe.exists() else self.name
        say(path, "change its reward", f"rlstack new recipe {name} --task {path}", f"rlstack train {name}.yaml")
        return 0


@dataclass(frozen=True)
class NewRecipe:
    """Write a recipe to start from, NAME.yaml, in this folder, for a task and a robot.

    It trains as it is, with the settings of another recipe; its comments say what each key is for. Nothing is
    overwritten.
    """

    name: tyro.conf.Positional[str]
    """Of the recipe: lower-case letters, digits and _."""
    kind: _Kind = ""
    """For quadrotor, wheeled_base, manipulator or quadruped; default: that of task and robot, or quadrotor."""
    from_: _Source = ""
    """The recipe whose settings it starts with; default: one for the task, the robot or the kind."""
    task: _Part = ""
    """Its task; default: that of the other recipe."""
    robot: _Part = ""
    """Its robot; default: that of the other recipe."""

    def run(self) -> int:
        """Write the file and print what comes next."""
        from rlstack.bringup.scaffold.recipe_file import check_fit, recipe_text, source_of
        from rlstack.bringup.scaffold.task_file import usable_name
        from rlstack.training.recipe import recipe_files

        usable_name(self.name, list(recipe_files()), "recipe")
        source = source_of(self.from_, self.kind, self.task, self.robot)
        check_fit(source, self.task, self.robot)
        path = write_new(Path(f"{self.name}.yaml"), recipe_text(self.name, source, self.task, self.robot))
        say(path, "change its settings", f"rlstack train {path} --show-task", f"rlstack train {path}")
        return 0


@dataclass(frozen=True)
class Init:
    """Write a workspace of your own: a Python and ROS 2 package with a robot, a task, a recipe and a launch file.

    `pip install -e FOLDER` or `colcon build` installs it; robot and task are then known by name. Nothing is
    overwritten.
    """

    folder: tyro.conf.Positional[Path]
    """The folder, which must not exist; its name is the package's: lower-case letters, digits and _."""
    kind: _Kind = ""
    """For quadrotor, wheeled_base, manipulator or quadruped; default: quadrotor."""
    from_: _Source = ""
    """The robot whose values its robot starts with, a name or a file; default: one of the kind."""

    def run(self) -> int:
        """Write the folder and print what comes next."""
        from rlstack.bringup.scaffold.workspace import write_workspace

        files = write_workspace(self.folder.expanduser(), self.kind, self.from_)
        print(f"Wrote {self.folder}: {len(files)} files, explained in its README.md.")
        print(f"Next:    cd {self.folder} && pip install --no-build-isolation -e .")
        return 0


def write_new(path: Path, text: str) -> Path:
    """Write a file that is not there yet.

    Raises:
        UserError: It is there, or cannot be written.
    """
    if path.exists():
        raise UserError(f"{path} exists already and is never overwritten: choose another NAME, or move it away.")
    check_folder(path.parent, "The present folder")
    write_atomically(path, text)
    return path


def say(path: Path, what: str, *commands: str) -> None:
    """Print what was written and the commands that come next."""
    first, *others = commands
    print(f"Wrote {path}: {what}.\nNext:    {first}")
    for command in others:
        print(f"         {command}")
