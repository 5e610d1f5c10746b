"""The policy that fine-tuning goes on from: a run's, or a policy file's, and what its recipe says about it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack import schema
from rlstack.errors import UserError
from rlstack.robots import load_robot, robot_names
from rlstack.tasks import TASKS
from rlstack.training.language.actor import LanguageActor, PolicySettings
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.recipe import recipe_files
from rlstack.training.run_files import CHECKPOINT, POLICY, RECIPE
from rlstack.yaml_files import read_yaml

WHERE = "algorithm_settings: pretrained:"
"""What errors about it begin with."""

_BEGINS = "vla_sft"
"""The algorithm whose runs no other run precedes."""
_FORM = ("head", "bins", "chunk", "network", "checkpoint")
"""Settings of a policy's form."""
_FREE = ("fine", "rows", "sharpness")
"""Those of them that change no tensor, and yet a file's graph."""
_ELSEWHERE = ("tuned", "frozen", "statistics")
"""Those of them that change neither."""


@dataclass(frozen=True)
class Predecessor:
    """What is known of a policy to go on from.

    Args:
        given: The run's folder, or the policy file.
        recipe: Its recipe as plain data; empty: it has none.
        environment: The robots of the run that goes on from it.
        policy: The policy of that run.
        heads: Heads that its algorithm learns.
    """

    given: Path
    recipe: Mapping[str, Any]
    environment: Any
    policy: LanguageActor
    heads: tuple[str, ...]

    def check_robot(self) -> None:
        """Raise ``UserError`` if it is of another robot: its network would fit, and see and move another arm."""
        there, here = self._robot(), self.environment.robot.name
        if there not in ("", here):
            raise UserError(
                f"{WHERE} {self.given} is of {there}, and this run is for {here}: give --robot"
                f" {self.recipe['robot']}, or {self._command()}."
            )

    def check_acting(self) -> None:
        """Raise ``UserError`` if it acts by other observations: its tensors fit, but some have learned nothing."""
        there = sorted(_network_of(self.recipe).get("acts_without", ()))
        if there != (here := sorted(self.policy.settings.network.acts_without)):
            raise self.misfit(f"its network.acts_without is {there}, and this recipe's is {here}")

    def task(self) -> Any:
        """Return the settings of the task that it was trained in last, if it is this run's task, or else this run's.

        They may shift actions within the policy file, where this run does not, or the other way round.
        """
        mine, theirs = self.environment.task, self.recipe.get("task_settings")
        try:
            kind = TASKS.load(str(self.recipe.get("task")))
            return schema.load(kind, theirs, f"{self.given}: task_settings") if kind is type(mine) else mine
        except UserError:  # of another version, or of a file that is gone
            return mine

    def misfit(self, why: str) -> UserError:
        """Return the error for a policy that does not fit; ``why``, if its recipe does not tell."""
        theirs, mine = self.recipe.get("task"), _first_recipe(self.environment.task)[1].get("task")
        if theirs and mine and theirs != mine:
            return UserError(f"{WHERE} {self.given} is of {theirs}, and this is {mine}: {self._command()}.")
        differ = self._differing()
        if not differ:
            return UserError(
                f"{WHERE} {self.given} does not fit: {why}. Give network, head, bins, chunk and checkpoint as in its"
                f" recipe, and the same robot and cameras; or {self._command()}."
            )
        told = ", ".join(
            f"its {name} is {_said(there)}, and this recipe's is {_said(here)}" for name, there, here in differ
        )
        options = " ".join(f"--algorithm-settings.{_dashed(name)} {_option(there)}" for name, there, _ in differ)
        head = next((there for name, there, _ in differ if name == "head"), self.policy.settings.head)
        give = f"give {options}, or " if head in self.heads else ""
        return UserError(f"{WHERE} {self.given} does not fit: {told}: {give}{self._command()}.")

    def _robot(self) -> str:
        """Return the name of its robot; empty: unknown."""
        try:
            robot = load_robot(str(self.recipe["robot"]))
        except (KeyError, UserError):  # it has no recipe, or the robot's file is gone
            return ""
        try:
            return str(self.environment.task.reference(robot).name)
        except UserError:  # of another kind
            return robot.name

    def _differing(self) -> list[tuple[str, Any, Any]]:
        """Return name, value there and value here of each setting of the policy's form that differs."""
        settings = self.recipe.get("algorithm_settings")
        if not isinstance(settings, Mapping):
            return []
        here, free = schema.to_data(self.policy.settings), _ELSEWHERE if self.given.is_file() else (*_FREE, *_ELSEWHERE)
        return [
            one
            for name in _FORM
            if name in settings and (name != "bins" or here["head"] == "tokens")
            for one in _apart(name, settings[name], here[name], free)
        ]

    def _command(self) -> str:
        """Return what makes one that fits."""
        return first_run(self.environment, self.policy.settings)


def first_run(environment: Any, form: PolicySettings) -> str:
    """Return how to make a run that others on this task go on from: the command of a recipe, if there is one.

    Args:
        environment: Of the task and the robot.
        form: Of the policy that goes on.
    """
    name, data = _first_recipe(environment.task, form.network)
    if not name:
        return f"begin with a run of {_BEGINS} on this task"
    mine = environment.robot.name
    robot = "" if data["robot"] == mine else f" --robot {mine if mine in robot_names() else mine + '.yaml'}"
    usual = data["algorithm_settings"].get("head", form.head)
    more = "" if form.head == usual else f" --algorithm-settings.head {form.head}"
    return f"begin with `rlstack train {name}{robot}{more}`"


def recipe_in(folder: Path, environment: Any, form: PolicySettings) -> Mapping[str, Any]:
    """Return the recipe of a run as plain data, which may be of another version; empty: it has none.

    Raises:
        UserError: The folder is not there, or is no run.
    """
    if not (folder / CHECKPOINT).is_file():
        why = f"has no {CHECKPOINT}, so that it is no run's folder"
        if not folder.exists():
            why = "does not exist"
        file = folder / POLICY
        name = (
            f"its policy file, {file}, if it is of this task" if file.is_file() else "a run's folder or a policy file"
        )
        raise UserError(f"{WHERE} {folder} {why}: name {name}, or {first_run(environment, form)}.")
    data = read_yaml(folder / RECIPE, "the recipe") if (folder / RECIPE).is_file() else {}
    return data if isinstance(data, Mapping) else {}


def _first_recipe(task: Any, network: NetworkSettings | None = None) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the data of the recipe that a task's runs begin with; empty: there is none.

    Of several it is that of a ``network``, or else the first.
    """
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, path in recipe_files().items():
        if f"\nalgorithm: {_BEGINS}\n" in path.read_text():  # reading all as YAML takes seconds
            data = read_yaml(path, "the recipe")
            if TASKS.load(data["task"]) is type(task) and not data["algorithm_settings"].get("fixed_eyes"):
                found.append((name, data))
    for name, data in found:
        if schema.load(NetworkSettings, data["algorithm_settings"].get("network", {}), name) == network:
            return name, data
    return found[0] if found else ("", {})


def _network_of(recipe: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the network in a recipe; empty: it has none."""
    settings = recipe.get("algorithm_settings")
    network = settings.get("network") if isinstance(settings, Mapping) else None
    return network if isinstance(network, Mapping) else {}


def _apart(name: str, there: Any, here: Any, free: tuple[str, ...]) -> list[tuple[str, Any, Any]]:
    """Return name, value there and value here of each setting that differs, but for some."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        both = [key for key in here if key in there and key not in free]
        return [one for key in both for one in _apart(f"{name}.{key}", there[key], here[key], free)]
    alike = list(there) == list(here) if isinstance(there, (list, tuple)) else there == here
    return [] if alike else [(name, there, here)]


def _said(value: Any) -> str:
    return str(list(value)) if isinstance(value, (list, tuple)) else str(value).lower()


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _option(value: Any) -> str:
    many = value if isinstance(value, (list, tuple)) else [value]
    return " ".join(shlex.quote(str(one)) for one in many)
