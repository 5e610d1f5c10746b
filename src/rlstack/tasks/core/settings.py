"""Restore a task with the settings that a policy was trained with, from its policy file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack import schema
from rlstack.policies.contract import Contract
from rlstack.robots import RobotSpec
from rlstack.tasks import TASKS

NOT_JUDGED = ("reward", "rewards")
"""Settings that affect learning but not the task itself."""


def trained_task(contract: Contract, where: str) -> Any:
    """Return a policy's task with its training settings; with the defaults if the file has none.

    Args:
        contract: The policy's contract.
        where: Name of the file in errors.

    Raises:
        UserError: The task is unknown, no longer has such settings, or does not allow their values.
    """
    made = TASKS.load(contract.task)
    told = within(contract.training, "recipe", "task_settings")
    return made() if told is None else schema.load(made, dict(told), f"{where}: training: recipe: task_settings")


def for_robot(task: Any, robot: RobotSpec) -> Any:
    """Return a task adapted to a robot by its ``fitted`` method, if it has one."""
    fit = getattr(task, "fitted", None)
    return task if fit is None else fit(robot)


def own_settings(task: Any) -> dict[str, tuple[Any, Any]]:
    """Return the (set, default) values of settings that differ from their default and affect the task, by name."""
    mine, usual = (dict(_flat("", schema.to_data(one))) for one in (task, type(task)()))
    return {
        name: (number, usual.get(name))
        for name, number in mine.items()
        if number != usual.get(name) and name.partition(".")[0] not in NOT_JUDGED
    }


def in_words(settings: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the result of :func:`own_settings` as a sentence, empty if there is none."""
    if not settings:
        return ""
    named = ", ".join(f"{name} {mine} (usually {usual})" for name, (mine, usual) in settings.items())
    return f"Tried and judged by the settings that the policy was trained with: {named}."


def within(data: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    """Return the mapping nested in ``data`` under ``names``, or None."""
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
