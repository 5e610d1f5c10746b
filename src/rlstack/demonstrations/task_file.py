"""The task of a dataset's episodes: ``meta/rlstack.json`` in its folder, which LeRobot ignores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlstack import schema
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.tasks import TASKS
from rlstack.tasks.core.task import Task

TASK_FILE = "meta/rlstack.json"
_VERSION = 1


def task_name(task: Task) -> str:
    """Return a task's name, or its class for a task outside the catalogue."""
    return next((name for name in TASKS.names() if TASKS.load(name) is type(task)), type(task).__name__)


def task_description(task: Task) -> str:
    """Return the task's description."""
    return (type(task).__doc__ or type(task).__name__).splitlines()[0]


def settings_of(task: Task) -> dict[str, Any]:
    """Return a task's settings after a round trip through JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(schema.to_data(task)))
    return plain


def read_task_file(path: Path) -> dict[str, Any] | None:
    """Return ``task``, its name, and ``settings`` of a dataset's folder; None: it has no task file.

    Raises:
        UserError: The file cannot be read, or was written by another version.
    """
    try:
        data = json.loads((path / TASK_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path / TASK_FILE} cannot be read ({error}): copy the dataset again.") from error
    if not (isinstance(data, dict) and data.get("version") == _VERSION and isinstance(data.get("settings"), dict)):
        raise UserError(f"{path / TASK_FILE} was written by another version: use the rlstack that recorded it.")
    if not isinstance(data.get("task"), str):
        raise UserError(f"{path / TASK_FILE} names no task: copy the dataset again.")
    return data


def write_task_file(path: Path, name: str, task: Task) -> None:
    """Write a dataset's task file, if there is none yet."""
    if read_task_file(path) is None:
        _write(path, {"version": _VERSION, "task": name, "settings": settings_of(task)})


def copy_task_file(path: Path, to: Path) -> None:
    """Copy the task file of the dataset at ``path`` to the dataset ``to``, if there is one."""
    if (held := read_task_file(path)) is not None:
        _write(to, held)


def recorded_task(path: Path) -> str | None:
    """Return the name of a dataset's task; None: it has no task file."""
    held = read_task_file(path)
    return None if held is None else str(held["task"])


def _write(path: Path, data: dict[str, Any]) -> None:
    write_atomically(path / TASK_FILE, json.dumps(data, indent=2) + "\n", what="the episodes'")
