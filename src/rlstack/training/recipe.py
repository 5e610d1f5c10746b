"""Recipe: the full configuration of a training run, from one YAML file and command-line options."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
import yaml

from rlstack import schema
from rlstack.errors import UserError, unknown_name
from rlstack.policies.released import is_name, released_policies
from rlstack.registry import FILE, absolute
from rlstack.resources import list_resources
from rlstack.robots import load_robot, robot_names
from rlstack.schema import value
from rlstack.tasks import TASKS
from rlstack.training import ALGORITHMS
from rlstack.training.recipe_changes import read_changes
from rlstack.training.trackers import TRACKERS
from rlstack.yaml_files import read_yaml

Task = TypeVar("Task")
Settings = TypeVar("Settings")

FINE_TUNING_SHARE = 0.2
"""Share of a recipe's steps that fine-tuning takes by default."""

_RENAMED = {"ppo_choice": "ppo_discrete"}
"""Algorithms in older recipes and runs, by their former name."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selection of a run's best policy, on other starts than those of any report."""

    episodes: int = value(500, at_least=1)
    """Held-out episodes of an evaluation."""
    every: float = value(0.05, above=0.0, at_most=1.0)
    """Share of the training steps between evaluations."""
    after: float = value(0.5, at_least=0.0, at_most=1.0)
    """Share of the training steps before the first evaluation."""
    seed: int = value(10_000, at_least=0)
    """Seed of the held-out episodes."""
    margins: tuple[str, ...] = ()
    """Margins of the reality grid to measure with the best policy at the end, such as mass_scale."""


@dataclass(frozen=True, kw_only=True)
class Recipe(Generic[Task, Settings]):
    """Train a policy for one robot and one task."""

    name: str
    """Name of the run and its policy."""
    task: str
    """A task's name, or the Python file of one, whose whole path is kept."""
    robot: str
    """A robot's name or file."""
    algorithm: str = "ppo"
    """A learning algorithm's name, or the Python file of one."""
    seed: int = value(0, at_least=0)
    """Seed of everything random in the run."""
    steps: int = value(5_000_000, at_least=1)
    """Environment steps, over all robots."""
    envs: int = value(1024, at_least=1)
    """Robots simulated in parallel."""
    device: str = "cpu"
    """Device of simulation and learning: cpu, or cuda if available."""
    threads: int = value(1, at_least=1)
    """CPU threads that the learner may use."""
    fine_tuned_from: Annotated[str | None, tyro.conf.arg(name="from", metavar="RUN_OR_POLICY")] = None
    """Start with the weights of this run's folder, policy file or released policy; default: an untrained policy."""
    tracker: str | None = None
    """A tracker that keeps the run's figures, too, such as mlflow; default: none beside TensorBoard's events."""
    selection: Selection = field(default_factory=Selection)
    changes: tuple[str, ...] = ()
    """Settings of the algorithm that change in mid-run, each SHARE:NAME=VALUE, such as 0.5:learning_rate=1e-4."""
    task_settings: Task = field(default_factory=dict)  # type: ignore[assignment]
    """The task's own settings."""
    algorithm_settings: Settings = field(default_factory=dict)  # type: ignore[assignment]
    """The algorithm's own settings."""

    def __post_init__(self) -> None:
        for name in ("task", "algorithm"):
            object.__setattr__(self, name, absolute(getattr(self, name)))
        if self.fine_tuned_from is not None:
            object.__setattr__(self, "fine_tuned_from", _named_or_absolute(self.fine_tuned_from))

    @property
    def processes(self) -> int:
        """Processes of a training that compute at a time: its own, a learner apart, and those beside them."""
        settings = self.algorithm_settings
        beside = max(getattr(settings, "workers", 0), getattr(settings, "processes", 1))
        return int(getattr(settings, "apart", False)) + beside


def recipe_files() -> dict[str, Path]:
    """Return ``{name: path}`` of the recipes that ship with rlstack."""
    return list_resources("policies", ".yaml")


def load_recipe(name_or_path: str | Path) -> Recipe[Any, Any]:
    """Read a recipe by name, or from a path that ends in ``.yaml``.

    Raises:
        UserError: The recipe, its robot, task or algorithm is unknown (nearest names listed), or a field does not
            exist, is of the wrong type or out of range.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        files = recipe_files()
        if str(name_or_path) not in files:
            raise unknown_name("recipe", str(name_or_path), files)
        path = files[str(name_or_path)]
    return read_recipe(path)


def read_recipe(path: Path) -> Recipe[Any, Any]:
    """Read a recipe from its file. Its robot, task and algorithm may be files: their paths are relative to its own.

    Raises:
        UserError: It cannot be read, is not YAML, names a file that is not there, or is refused as by
            :func:`load_recipe`.
    """
    data = read_yaml(path, "the recipe")
    return recipe_from_data({**data, **_beside(path, data)} if isinstance(data, dict) else data, str(path))


_FILES = {"task": (FILE,), "robot": (".yaml", ".yml"), "algorithm": (FILE,)}
"""Fields that may be files, and how those end."""


def _beside(path: Path, data: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that a recipe's data name, as they are found from the working folder."""
    found = {}
    for field_name, ends in _FILES.items():
        name = data.get(field_name)
        if isinstance(name, str) and name.endswith(ends):
            file = path.parent / Path(name).expanduser()
            if not file.is_file():
                raise UserError(
                    f"{path}: {field_name}: there is no file {file}. Paths in a recipe are relative to its own file."
                )
            found[field_name] = str(file)
    if isinstance(origin := data.get("fine_tuned_from"), str) and origin not in released_policies():
        found["fine_tuned_from"] = str(path.parent / Path(origin).expanduser())
    return found


def _named_or_absolute(origin: str) -> str:
    """Return the name of a released policy, or the whole path of a run or file, which a run's recipe keeps."""
    path = Path(origin).expanduser()
    return origin if is_name(origin) and not path.exists() else str(path.absolute())


def recipe_from_data(data: Any, where: str) -> Recipe[Any, Any]:
    """Build a checked recipe from a plain mapping; ``where`` names it in errors."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: a recipe must be a mapping of keys to values.")
    plain = schema.load(Recipe, data, where)
    algorithm = _RENAMED.get(plain.algorithm, plain.algorithm)
    recipe: Recipe[Any, Any] = dataclasses.replace(
        plain,
        algorithm=algorithm,
        task_settings=schema.load(TASKS.load(plain.task), plain.task_settings, f"{where}: task_settings"),
        algorithm_settings=schema.load(
            ALGORITHMS.load(algorithm).Settings, plain.algorithm_settings, f"{where}: algorithm_settings"
        ),
    )
    _check_fit(recipe, where)
    return recipe


def switched(recipe: Recipe[Any, Any], task: str, algorithm: str) -> tuple[Recipe[Any, Any], list[str]]:
    """Return a recipe for another task or algorithm, unchecked, and sentences about the settings carried over.

    Settings that the recipe changes from its own task's or algorithm's defaults are carried over if the new one has
    them and accepts the value; all others are the new one's defaults.

    Raises:
        UserError: The task or algorithm is unknown (nearest names listed).
    """
    notes: list[str] = []
    task, algorithm = absolute(task), absolute(algorithm)
    if task != recipe.task:
        settings = _carried_over(recipe.task_settings, TASKS.load(task), f"task {task}", "task_settings", notes)
        recipe = dataclasses.replace(recipe, task=task, task_settings=settings)
    if algorithm != recipe.algorithm:
        kind, key = ALGORITHMS.load(algorithm).Settings, "algorithm_settings"
        settings = _carried_over(recipe.algorithm_settings, kind, f"algorithm {algorithm}", key, notes)
        recipe = dataclasses.replace(recipe, algorithm=algorithm, algorithm_settings=settings)
    return recipe, notes


def with_robots_ranges(recipe: Recipe[Any, Any], robot: str) -> tuple[Recipe[Any, Any], list[str]]:
    """Return a recipe whose ranges hold those that the file of ``robot`` (a name or path) has for training; sentences.

    The recipe's ranges are widened and never narrowed: a policy that has seen only what an identification leaves
    uncertain does not pass its proof, which asks for margins of delay, mass and lag for another day, battery or
    payload (docs/loop.md has figures). A file that is missing is refused when it is needed, as in any recipe.

    Raises:
        UserError: The robot file is refused, or a range is not one that the task allows.
    """
    if robot.endswith(_FILES["robot"]) and not Path(robot).expanduser().is_file():
        return recipe, []
    ranges = load_robot(robot).randomisation
    settings: Any = getattr(recipe.task_settings, "randomisation", None)
    if not ranges or settings is None:
        return recipe, []
    named = {entry.name for entry in dataclasses.fields(settings)}
    where = f"{robot}: randomisation"
    schema.check(dataclasses.replace(settings, **{name: ends for name, ends in ranges.items() if name in named}), where)
    wider = {}
    for name, (low, high) in ranges.items():
        if name in named and (usual := getattr(settings, name)) is not None:
            ends = min(usual[0], low), max(usual[1], high)
            if ends != tuple(usual):
                wider[name] = ends
    if not wider:
        return recipe, []
    changed = dataclasses.replace(recipe.task_settings, randomisation=dataclasses.replace(settings, **wider))
    listed = ", ".join(f"{name} {list(ends)}" for name, ends in wider.items())
    return dataclasses.replace(recipe, task_settings=changed), [f"The robot file widens the recipe's ranges: {listed}."]


def with_fewer_steps(recipe: Recipe[Any, Any]) -> tuple[Recipe[Any, Any], str]:
    """Return a recipe with the steps that fine-tuning takes by default, and a sentence about them."""
    steps = max(1, round(FINE_TUNING_SHARE * recipe.steps))
    told = f"Fine-tuning takes {steps:,} steps by default, {100 * FINE_TUNING_SHARE:.0f}% of the recipe's: --steps."
    return dataclasses.replace(recipe, steps=steps), told


def _carried_over(settings: Any, kind: Any, whose: str, key: str, notes: list[str]) -> Any:
    """Return settings of another class with the ``settings`` that fit it, and append a summary to ``notes``."""
    kept: dict[str, Any] = {}
    taken: list[str] = []
    left = _changed(settings)
    again = True
    while again:  # some are valid only together with others
        again = False
        for path, changed in list(left.items()):
            data = target = copy.deepcopy(kept)
            for name in path[:-1]:
                target = target.setdefault(name, {})
            target[path[-1]] = changed
            try:
                schema.load(kind, data, "")
            except UserError:
                continue
            kept, again = data, True
            taken.append(".".join(path))
            del left[path]
    parts = [f"takes over {', '.join(taken)}"] if taken else []
    if left:
        parts.append(f"leaves out {', '.join(map('.'.join, left))}, which it does not have or does not accept")
    if parts:
        notes.append(f"Of the recipe's {key} the {whose} {', and '.join(parts)}.")
    return schema.load(kind, kept, f"The {whose}: {key}")


def _changed(settings: Any, default: Any = None) -> dict[tuple[str, ...], Any]:
    """Return the settings that differ from their defaults, or from ``default``, as plain data by path."""
    changed: dict[tuple[str, ...], Any] = {}
    for entry in dataclasses.fields(settings):
        held, usual = getattr(settings, entry.name), dataclasses.MISSING
        if default is not None:
            usual = getattr(default, entry.name)
        elif entry.default is not dataclasses.MISSING:
            usual = entry.default
        elif entry.default_factory is not dataclasses.MISSING:
            usual = entry.default_factory()
        if dataclasses.is_dataclass(held) and type(held) is type(usual):
            changed.update({(entry.name, *path): value for path, value in _changed(held, usual).items()})
        elif held != usual:
            changed[entry.name,] = schema.to_data(held)
    return changed


def check_recipe(recipe: Recipe[Any, Any], where: str) -> None:
    """Raise ``UserError`` for a value out of range, an unknown robot, settings of another task or algorithm, or a task
    that the algorithm cannot learn."""
    schema.check(recipe, where)
    kinds = {"task": TASKS.load(recipe.task), "algorithm": ALGORITHMS.load(recipe.algorithm).Settings}
    for part, kind in kinds.items():
        at, settings = f"{where}: {part}_settings", getattr(recipe, f"{part}_settings")
        if type(settings) is not kind:
            raise UserError(
                f"{at}: {type(settings).__name__} is not allowed: the {part} '{getattr(recipe, part)}' has"
                f" {kind.__name__}. Give both together."
            )
        schema.check(settings, at)
    _check_fit(recipe, where)


def _check_fit(recipe: Recipe[Any, Any], where: str) -> None:
    """Raise ``UserError`` for an unknown robot or tracker, or a task that the algorithm cannot learn."""
    if not recipe.robot.endswith(_FILES["robot"]) and recipe.robot not in robot_names():
        raise unknown_name("robot", recipe.robot, robot_names())
    if recipe.tracker is not None and recipe.tracker not in TRACKERS.names():
        raise unknown_name("tracker", recipe.tracker, TRACKERS.names())
    read_changes(recipe.changes, recipe.algorithm, recipe.algorithm_settings, where)
    if ALGORITHMS.load(recipe.algorithm).needs_gradients and not _differentiable(recipe.task_settings):
        tasks = [name for name in TASKS.names() if _differentiable(TASKS.load(name))]
        others = [name for name in ALGORITHMS.names() if not ALGORITHMS.load(name).needs_gradients]
        raise UserError(
            f"{where}: algorithm: '{recipe.algorithm}' needs gradients through the simulator, and the simulator of"
            f" '{recipe.task}' has none. Tasks with gradients: {', '.join(tasks)}. Algorithms without:"
            f" {', '.join(others)}."
        )


def _differentiable(task: Any) -> bool:
    """Return whether a task declares that its simulator has gradients, as the batch simulator's tasks do."""
    return bool(getattr(task, "differentiable", False))


def recipe_to_yaml(recipe: Recipe[Any, Any]) -> str:
    """Return the whole recipe as YAML; reading it back, from any file, gives the same recipe."""
    data = schema.to_data(recipe)
    if recipe.robot.endswith(_FILES["robot"]):
        data["robot"] = str(Path(recipe.robot).expanduser().resolve())
    return yaml.safe_dump(data, sort_keys=False)
