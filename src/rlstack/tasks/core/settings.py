"""A task with the settings that a policy was trained with, as the policy's file says them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack import schema
from rlstack.policies.contract import Contract
from rlstack.robots import RobotSpec
from rlstack.tasks import TASKS

NOT_JUDGED = ("reward", "rewards")
"""Settings that change how a policy learns, and nothing of what it is to do."""


def trained_task(contract: Contract, where: str) -> Any:
    """Return a policy's task with the settings that it was trained with; as it is if the file says none.

    Args:
        contract: The policy's.
        where: What errors call the file.

    Raises:
        UserError: The task is unknown, or has no such settings (any more), or does not allow their values.
    """
    made = TASKS.load(contract.task)
    told = within(contract.training, "recipe", "task_settings")
    return made() if told is None else schema.load(made, dict(told), f"{where}: training: recipe: task_settings")


def for_robot(task: Any, robot: RobotSpec) -> Any:
    """Return a task as it is for a robot: those whose places and sizes go by it say so by their ``fitted``."""
    fit = getattr(task, "fitted", None)
    return task if fit is None else fit(robot)


def own_settings(task: Any) -> dict[str, tuple[Any, Any]]:
    """Return what a task is set to and what it is by itself, by name, where the two differ in what is to be done."""
    mine, usual = (dict(_flat("", schema.to_data(one))) for one in (task, type(task)()))
    return {
        name: (number, usual.get(name))
        for name, number in mine.items()
        if number != usual.get(name) and name.partition(".")[0] not in NOT_JUDGED
    }


def in_words(settings: Mapping[str, tuple[Any, Any]]) -> str:
    """Return what :func:`own_settings` found as a sentence; empty if that is nothing."""
    if not settings:
        return ""
    named = ", ".join(f"{name} {mine} (usually {usual})" for name, (mine, usual) in settings.items())
    return f"Tried and judged by the settings that the policy was trained with: {named}."


def within(data: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    """Return the mapping that lies in others under names; None: there is none."""
    for name in names:
        found = data.get(name)
        if not isinstance(found, Mapping):
            return None
        data = found
    return data


def _flat(path: str, data: Any) -> Any:
    if isinstance(data, dict):
        for name, item in data.items():
            yield from _flat(f"{path}.{name}" if path else name, item)
    else:
        yield path, data
