"""A new task file: a task that is there with one reward term more, and what each part is for."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Container

from rlstack.bringup.kind_scaffold import KindScaffold
from rlstack.errors import UserError
from rlstack.kinds import find_kind
from rlstack.registry import FILE
from rlstack.tasks import TASKS

_TEXT = '''\
"""{name}: {source} with one reward term more. A starting file that trains as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
{imports}

@dataclass(frozen=True, kw_only=True)
class {title}({base}):
    """What the robot is to learn, in one sentence.

    Each field is a key of the recipe's task_settings and an option of `rlstack train`; value() gives what it may be.
    Everything that is not written here is as in {source}.
    """

{body}
    # What else may be overridden (docs/tasks.md, "What a task must have"):
    #   inputs, outputs   signals of the policy file, such as goal_position: the deployed robot must publish them
    #   pipeline          what the policy observes; it is exported with the policy
    #   reward            weights of the other terms: as options, --task-settings.reward. and the term's name
    #   lost              which robots have failed and start again
    #   bounds            what `rlstack verify` asks of a policy


TASK = {title}
'''
"""The file; ``rlstack train --task FILE`` reads what it calls TASK."""


def scaffold_of(kind: str) -> KindScaffold:
    """Return the starting files of a kind.

    Raises:
        UserError: The kind is unknown or has none.
    """
    scaffold: KindScaffold = find_kind(kind).load("scaffold")
    return scaffold


def task_text(name: str, source: str) -> str:
    """Return the text of a task file called ``name`` that extends the task ``source``.

    Raises:
        UserError: The source is unknown, is a file, or is no task that a reward term can be added to.
    """
    if source.endswith(FILE):
        raise UserError(f"--from {source}: copy a task file of your own. Tasks by name: {', '.join(TASKS.names())}.")
    task = TASKS.load(source)
    scaffold = scaffold_of(task.kind)
    if not issubclass(task, pkgutil.resolve_name(scaffold.task_class)):
        raise UserError(
            f"--from {source}: its reward is not made of terms that another file can add to. Start from another task,"
            f" such as {scaffold.recipe}."
        )
    transition = scaffold.transition.rpartition(":")
    imports = ["from rlstack.schema import value", f"from {task.__module__} import {task.__name__}"]
    imports.append(f"from {transition[0]} import {transition[2]}")
    libraries = ["", "import numpy as np"] if "np." in scaffold.task_body else []
    return _TEXT.format(
        name=name,
        source=source,
        title=title(name),
        base=task.__name__,
        imports="\n".join([*libraries, "", *sorted(imports), ""]),
        body=scaffold.task_body.replace("Transition", transition[2]),
    )


def title(name: str) -> str:
    """Return the name of the class of a task."""
    words = "".join(word.capitalize() for word in name.split("_"))
    return words if words.endswith("Task") else f"{words}Task"


def usable_name(name: str, taken: Container[str], what: str) -> None:
    """Refuse a name that Python or YAML files cannot have, or that another one of rlstack has.

    Raises:
        UserError: What is wrong, and what to do.
    """
    if not name.isidentifier() or not name.isascii() or name != name.lower():
        raise UserError(
            f"NAME: {name!r} is not allowed: lower-case letters, digits and _, such as my_{what}, without the ending."
        )
    if name in taken:
        raise UserError(f"NAME: rlstack has a {what} {name} already: choose another name, such as my_{name}.")
    if what in ("task", "package") and importlib.util.find_spec(name) is not None:
        raise UserError(f"NAME: a Python module is called {name} already: choose another name, such as my_{name}.")
