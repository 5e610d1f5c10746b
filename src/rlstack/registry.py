"""Registries of extensible parts: backends, tasks, algorithms.

A name is a module in a package of rlstack, or an entry point of another installed package, so adding
one touches no existing file.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rlstack.errors import unknown_name


def installed(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group from installed packages.

    Cached by ``sys.path``: each lookup reads a file of every installed package, which takes some 10 ms.
    """
    return _installed(group, tuple(sys.path))


@cache
def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(_all_installed(path).select(group=group))


@cache
def _all_installed(path: tuple[str, ...]) -> Any:
    return entry_points()


@dataclass(frozen=True)
class Registry:
    """Entries by name, each a module in ``package`` that defines ``attribute``.

    Args:
        kind: The name of such an entry in error messages, such as ``"backend"``.
        package: The package whose modules are the built-in entries.
        attribute: The attribute of such a module that is the entry.
        group: The entry-point group by which other packages add entries.
        second_package: Another package with built-in entries.
    """

    kind: str
    package: str
    attribute: str
    group: str
    second_package: str = ""

    def names(self) -> list[str]:
        """Return every known name, without importing any of them."""
        return sorted(self._built_in().keys() | {e.name for e in installed(self.group)})

    def load(self, name: str) -> Any:
        """Return the entry called ``name``; raise ``UserError`` with the nearest names if there is none."""
        for entry in installed(self.group):
            if entry.name == name:
                return entry.load()
        package = self._built_in().get(name)
        if package is None:
            _all_installed.cache_clear()  # find newly installed packages the next time
            _installed.cache_clear()
            raise unknown_name(self.kind, name, self.names())
        return getattr(importlib.import_module(f"{package}.{name}"), self.attribute)

    def _built_in(self) -> dict[str, str]:
        """Return the package of each built-in entry."""
        packages = filter(None, (self.second_package, self.package))  # the first named has precedence
        paths = {package: importlib.import_module(package).__path__ for package in packages}
        modules = [(m.name, package) for package, path in paths.items() for m in pkgutil.iter_modules(path)]
        return {name: package for name, package in modules if not name.startswith("_")}
