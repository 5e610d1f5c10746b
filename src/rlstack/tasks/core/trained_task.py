"""Restore a task with the settings that a policy was trained with, from its policy file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack import schema
from rlstack.policies.contract import Contract
from rlstack.tasks import TASKS

LEARNING_ONLY = ("reward", "rewards")
"""Settings that affect learning but not the task itself."""


def trained_task(contract: Contract, where: str) -> Any:
    """Return a policy's task with its training settings; with the defaults if the file has none.

    Args:
        contract: The policy's contract.
        where: Name of the file in errors.

    Raises:
        UserError: The task is unknown, no longer has such settings, or does not allow their values.
    """
    task_class = TASKS.load(contract.task)
    settings = within(contract.training, "recipe", "task_settings")
    return schema.load(task_class, dict(settings or {}), f"{where}: training: recipe: task_settings")


def changed_settings(task: Any) -> tuple[str, dict[str, Any]]:
    """Return the settings that differ from their default and affect the task: in a sentence, and as plain data."""
    mine, usual = (dict(schema.leaves(schema.to_data(one))) for one in (task, type(task)()))
    changed = {
        name: value
        for name, value in mine.items()
        if value != usual.get(name) and name.partition(".")[0] not in LEARNING_ONLY
    }
    named = ", ".join(f"{name} {value} (default {usual.get(name)})" for name, value in changed.items())
    sentence = f"Run and judged with the settings that the policy was trained with: {named}." if changed else ""
    return sentence, {"settings": changed}


def within(data: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    """Return the mapping nested in ``data`` under ``names``, or None."""
    for name in names:
        found = data.get(name)
        if not isinstance(found, Mapping):
            return None
        data = found
    return data
