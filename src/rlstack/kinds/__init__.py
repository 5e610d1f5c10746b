"""Kinds of robots: one folder each, behind one :class:`RobotKind`, found by name and loaded part by part.

A folder ``kinds/<name>/`` has a file for each part of :data:`PARTS` that the kind supports. Each file defines one
object, named after the file in capitals: ``guard.py`` defines ``GUARD``. The layer that uses a part has its base class
in a module ``kind_<part>.py``, such as ``sim/kind_simulation.py``; those of specs, guards and verifications are
``robots/spec.py``, ``guard/guard.py`` and ``verification/task_verification.py``. Another package adds a kind with an
entry point in the group ``rlstack.kinds`` that names such a package.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Any

from rlstack.errors import UserError, unknown_name
from rlstack.registry import installed

GROUP = "rlstack.kinds"
"""The entry-point group in which other packages register kinds."""

PARTS = {
    "spec": "robot file",
    "models": "simulator model",
    "signals": "list of signals",
    "simulation": "simulation",
    "guard": "guard",
    "topics": "robot node",
    "deployment": "deployment",
    "drill": "fault drill",
    "identification": "identification",
    "adaptation": "adaptation in flight",
    "verification": "verification",
    "scaffold": "starting file",
}
"""The files of a kind's folder and what each one provides."""


@dataclass(frozen=True)
class RobotKind:
    """One kind of robot.

    Args:
        name: As in robot files, such as ``quadrotor``.
        package: The package with its parts.
    """

    name: str
    package: str

    def has(self, part: str) -> bool:
        """Return whether the kind has a part, without importing it."""
        return importlib.util.find_spec(f"{self.package}.{part}") is not None

    def load(self, part: str) -> Any:
        """Return a part of the kind, importing only that part's file.

        Args:
            part: One of :data:`PARTS`.

        Raises:
            UserError: The kind lacks it.
        """
        if not self.has(part):
            others = ", ".join(name for name in kind_names() if find_kind(name).has(part))
            raise UserError(
                f"There is no {PARTS[part]} for robots of the kind '{self.name}': add {part}.py to the package"
                f" {self.package}. Kinds that have it: {others}."
            )
        return getattr(importlib.import_module(f"{self.package}.{part}"), part.upper())


def kind_names() -> list[str]:
    """Return the names of all kinds, without importing any."""
    return sorted(_built_in_names() | {entry.name for entry in installed(GROUP)})


@cache
def _built_in_names() -> frozenset[str]:
    # the folder does not change while a program runs, and listing it takes longer than a guard's decision
    return frozenset(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def find_kind(name: str) -> RobotKind:
    """Return the kind called ``name``.

    Raises:
        UserError: There is none; the message suggests similar names.
    """
    for entry in installed(GROUP):
        if entry.name == name:
            return RobotKind(name, entry.value)
    if name not in kind_names():
        raise unknown_name("kind of robot", name, kind_names())
    return _built_in(name)


@cache
def _built_in(name: str) -> RobotKind:
    return RobotKind(name, f"{__name__}.{name}")
