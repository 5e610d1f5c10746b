"""A new recipe: one that is there, for another task or robot, and what each key is for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rlstack.bringup.scaffold.task_file import scaffold_of
from rlstack.errors import UserError
from rlstack.registry import absolute
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.training.recipe import load_recipe, recipe_files, recipe_from_data
from rlstack.yaml_files import parse_yaml, read_text

_MEANING = {
    "name": "of the run's folder, runs/NAME-001, and of the policy",
    "task": "what is learned: a task's name, or a file of your own; its path is relative to this file",
    "robot": "a robot's name or file, likewise",
    "algorithm": "how it is learned: docs/training.md",
    "seed": "of everything random; another one is another run",
    "steps": "environment steps of all robots together: more take longer, and often end better",
    "envs": "robots that are simulated at once",
    "selection": "how often the policy is evaluated on held-out starts; the best one is kept",
    "task_settings": "the task's own fields, with units in their names: --show-task and --help list them",
    "algorithm_settings": "the algorithm's own fields",
}


def source_of(source: str, kind: str, task: str, robot: str) -> str:
    """Return the recipe that a new one starts from: the named one, or one for the task, the robot or the kind.

    Raises:
        UserError: The task, robot or kind is unknown.
    """
    if source:
        return source
    if task:
        loaded = TASKS.load(absolute(task))
        above = [one.__module__.rpartition(".")[2] for one in loaded.__mro__]
        tasks = {name: _task_of(path) for name, path in sorted(recipe_files().items())}
        fits = [recipe for name in above for recipe in sorted(tasks, key=name.__ne__) if tasks[recipe] == name]
        return fits[0] if fits else scaffold_of(loaded.kind).recipe
    return scaffold_of(kind or (load_robot(robot).kind if robot else "quadrotor")).recipe


def _task_of(path: Path) -> str:
    """Return the task that a recipe names, without loading it."""
    found = re.search(r"^task:\s*(\S+)", path.read_text(), re.MULTILINE)
    return found[1] if found else ""


def check_fit(source: str, task: str, robot: str) -> None:
    """Refuse a task or robot, by name or file, that the settings of the recipe ``source`` do not fit.

    Raises:
        UserError: Why they do not, or the source is unknown.
    """
    load_recipe(source)
    data = parse_yaml(_text_of(source), source)
    data.update({key: name for key, name in (("task", task), ("robot", robot)) if name})
    try:
        recipe_from_data(data, source)
        load_robot(data["robot"])
    except UserError as error:
        raise UserError(f"The recipe {source} does not fit: {error} Start from another one with --from.") from error


def _text_of(source: str) -> str:
    path = Path(source) if source.endswith((".yaml", ".yml")) else recipe_files()[source]
    return read_text(path, "the recipe")


def recipe_text(name: str, source: str, task: str = "", robot: str = "", path: str = "") -> str:
    """Return the text of a recipe called ``name`` with the settings of the recipe ``source``.

    Args:
        name: Its name.
        source: A recipe's name or file.
        task: Another task, by name or file.
        robot: Another robot, by name or file.
        path: Where it is going to be; default: NAME.yaml.
    """
    given = {"name": name, "task": task, "robot": robot}
    path = path or f"{name}.yaml"
    head = [
        f"# {name}: a recipe with the settings of {source}. It trains as it is: rlstack train {path}",
        f"# Keys that are left out have their defaults; `rlstack train {path} --help` shows all of them.",
    ]
    return "\n".join([*head, *_annotated(_text_of(source), given)]) + "\n"


def _annotated(text: str, given: Mapping[str, str]) -> list[str]:
    """Return the recipe's lines without its heading, with new values, and a comment above each key at the top."""
    lines = text.rstrip().splitlines()
    while lines[0].startswith("#"):
        lines.pop(0)
    found = []
    for line in lines:
        key, colon, _ = line.partition(":")
        if colon and key in _MEANING:
            found.append(f"# {key}: {_MEANING[key]}")
        found.append(f"{key}: {given[key]}" if given.get(key) else line)
    return found
