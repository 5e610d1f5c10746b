"""What a run is fine-tuned from: another run, or a policy file, whose weights it starts with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlstack import schema
from rlstack.errors import UserError
from rlstack.policies import find_policy, load_policy
from rlstack.policies.contract import Contract
from rlstack.policies.graph_weights import weights_of
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training import ALGORITHMS
from rlstack.training.algorithm import Actor
from rlstack.training.recipe import Recipe
from rlstack.training.run_files import CHECKPOINT, POLICY
from rlstack.training.run_folder import load_checkpoint

SCHEDULE_FROM = 0.75
"""Share of the schedules (learning rate, curriculum) that fine-tuning leaves out: a policy that flies already needs no
large steps, which would undo it, and no easy starts."""

_NETWORK = ("network", "hidden", "critic_hidden", "gru_width", "member_width", "memory", "activation", "critics")
"""Algorithms' settings that define the networks."""

_SETTING = "pretrained"
"""Setting of algorithms that say what they go on from by themselves."""

_FOLDED = ("mean", "scale")
"""Normalisation, which a policy file has in its first layer."""


@dataclass(frozen=True)
class Origin:
    """A trained policy that a run starts with.

    Args:
        path: The run's folder, or the policy file.
        sha256: SHA-256 of the policy file's bytes.
        contract: Its contract.
        actor: Its weights by the names of the actor's ``state_dict``, without a normalisation that is folded into them.
        state: The state of its algorithm at the end, such as critics; None: of a policy file, which has none.
    """

    path: Path
    sha256: str
    contract: Contract
    actor: Mapping[str, Tensor]
    state: Mapping[str, Any] | None

    def check(self, recipe: Recipe[Any, Any], pipeline: Pipeline) -> None:
        """Refuse a recipe for which the weights have no meaning.

        Args:
            recipe: The recipe to train.
            pipeline: Its observation, for its robot.

        Raises:
            UserError: Another task, algorithm, network or observation, which is named.
        """
        contract, training = self.contract, self.contract.training
        theirs = training.get("recipe")
        if not isinstance(theirs, Mapping):
            raise UserError(f"--from: {self.path} has no recipe in its contract: rlstack did not train it.")
        if contract.task != recipe.task:
            raise UserError(
                f"--from: {self.path} is a policy for the task {contract.task}, not for {recipe.task}: its observation"
                " and actions mean something else. Start from a run of the same task."
            )
        if (algorithm := training.get("algorithm")) != recipe.algorithm:
            raise UserError(
                f"--from: {self.path} was trained by {algorithm}, whose networks are others than those of"
                f" {recipe.algorithm}. {self._own_recipe()}"
            )
        if contract.rate_hz != recipe.task_settings.rate_hz:
            raise UserError(
                f"--from: {self.path} acts at {contract.rate_hz:g} Hz, and the recipe at"
                f" {recipe.task_settings.rate_hz:g} Hz. {self._own_recipe()}"
            )
        here = schema.to_data(recipe)
        compared: dict[str, Sequence[str]] = {"task_settings": ("observation",), "algorithm_settings": _NETWORK}
        for section, fields in compared.items():
            known = theirs.get(section)
            if isinstance(known, Mapping) and (differ := _differing(known, here[section], fields)):
                what = "observation" if section == "task_settings" else "network"
                told = "; ".join(f"{section}.{name} is {there} there and {now} here" for name, there, now in differ)
                raise UserError(f"--from: {self.path} has another {what}: {told}. {self._own_recipe()}")
        now = observed(pipeline)
        before = training.get("observation")
        columns = _terms(before) if isinstance(before, Sequence) else {}
        if columns != _terms(now):
            changed = sorted(set(columns.items()) ^ set(_terms(now).items()))
            names = ", ".join(dict.fromkeys(name for name, _ in changed))
            raise UserError(
                f"--from: {self.path} has another observation: {names} is not the same there and for"
                f" {recipe.robot}. {self._own_recipe()}"
            )

    def check_network(self, actor: Actor) -> None:
        """Refuse a network of other tensors than those of ``actor``, which is what the recipe would train.

        Raises:
            UserError: The tensors that differ are named.
        """
        mine = {name: tuple(tensor.shape) for name, tensor in actor.state_dict().items()}
        given = {name: tuple(tensor.shape) for name, tensor in self.actor.items()}
        if self.state is None:
            mine = {name: shape for name, shape in mine.items() if name not in _FOLDED}
        if given != mine:
            names = sorted(name for name in {**given, **mine} if given.get(name) != mine.get(name))
            told = ", ".join(
                f"{name} ({list(given[name]) if name in given else 'missing'} there,"
                f" {list(mine[name]) if name in mine else 'none'} here)"
                for name in names[:4]
            )
            raise UserError(
                f"--from: {self.path} has another network: {told}. Start from a run with the same robot's rotors or"
                " joints and the same algorithm_settings."
            )

    def lineage(self) -> list[dict[str, Any]]:
        """Return where this policy comes from, for the files of a run that starts with it: itself first."""
        training = self.contract.training
        own = {
            "name": self.contract.name,
            "sha256": self.sha256,
            "robot": self.contract.robot,
            "seed": training.get("seed"),
            "steps": training.get("steps"),
        }
        return [own, *training.get("lineage", [])]

    def _own_recipe(self) -> str:
        recipe = self.path / "recipe.yaml"
        if recipe.is_file():
            return f"Take its own recipe: rlstack train {recipe} --from {self.path} --robot NEW.yaml."
        return "Set the recipe's fields as they are there (`rlstack show`), or start from another policy."


def read_origin(given: str, algorithm: str) -> Origin:
    """Read what to start from.

    Args:
        given: A run's folder, a policy file, or the name of a released policy.
        algorithm: The algorithm that is to go on.

    Raises:
        UserError: It does not exist or cannot be read, the algorithm cannot start from weights, or the weights cannot
            be told from the file.
    """
    fine_tunes = getattr(ALGORITHMS.load(algorithm), "fine_tunes", "")
    if not fine_tunes:
        if _SETTING in {one.name for one in dataclasses.fields(ALGORITHMS.load(algorithm).Settings)}:
            raise UserError(
                f"--from: {algorithm} goes on from another run by a setting of its own: give"
                f" --algorithm-settings.{_SETTING} {given} in its place."
            )
        kinds = [name for name in ALGORITHMS.names() if getattr(ALGORITHMS.load(name), "fine_tunes", "")]
        raise UserError(
            f"--from: the algorithm {algorithm} cannot start from another run's weights; these can: {', '.join(kinds)}."
        )
    folder = Path(given).expanduser()
    if folder.is_dir():
        return _read_run(folder)
    policy = load_policy(find_policy(given))
    if fine_tunes != "policy":
        raise UserError(
            f"--from: {given} is a policy file, which has no critics, and {algorithm} needs them: name the folder of"
            " its run."
        )
    weights = weights_of(policy.path, "actor.")
    if not weights:
        raise UserError(
            f"--from: the weights in {given} cannot be told from its other numbers: it was quantised, or made by"
            " another program. Name the folder of its run."
        )
    actor = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    return Origin(policy.path, policy.sha256, policy.contract, actor, None)


def _read_run(folder: Path) -> Origin:
    if not (folder / CHECKPOINT).is_file():
        raise UserError(f"--from: {folder} is not a run: it has no {CHECKPOINT}. Name a folder under runs/.")
    if not (folder / POLICY).is_file():
        raise UserError(f"--from: {folder} has no {POLICY} yet: write it with `rlstack export {folder}`.")
    policy, state = load_policy(folder / POLICY), load_checkpoint(folder)
    try:
        return Origin(folder, policy.sha256, policy.contract, state["best"]["actor"], state["algorithm"])
    except KeyError as error:
        raise UserError(
            f"--from: {folder / CHECKPOINT} has no {error}: another version of rlstack wrote it. Train again."
        ) from error


def observed(pipeline: Pipeline) -> list[str]:
    """Return the terms of an observation, a sentence each, as policy files have them."""
    return [
        f"{term.name}: columns {term.start} to {term.start + term.size - 1}, {term.unit}, {term.meaning}"
        for term in pipeline.table()
    ]


def _terms(sentences: Sequence[Any]) -> dict[str, str]:
    """Return each term's columns by name; meanings may have numbers of the robot in them."""
    return {name: rest.partition(",")[0] for name, _, rest in (str(one).partition(":") for one in sentences)}


def _differing(there: Mapping[str, Any], here: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """Return the path, and the value there and here, of each field in ``names`` that differs."""
    found: list[tuple[str, Any, Any]] = []
    for name in names:
        if name not in there or name not in here:
            continue  # another version's field, or another algorithm's: the tensors' shapes tell
        before, now = there[name], here[name]
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            found += [(f"{name}.{path}", a, b) for path, a, b in _differing(before, now, list(now))]
        elif _plain(before) != _plain(now):
            found.append((name, before, now))
    return found


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
