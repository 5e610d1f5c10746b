"""Registries of extensible parts: backends, tasks, algorithms.

A name is a module in a package of rlstack, an entry point of another installed package, or the path of a Python file:
adding one touches no existing file.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from rlstack.errors import UserError, unknown_name

FILE = ".py"
"""End of a name that is the path of a file."""


def absolute(name: str) -> str:
    """Return a name as it holds in other folders: the whole path of a file; any other name as it is."""
    return str(Path(name).expanduser().resolve()) if name.endswith(FILE) else name


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
        files: Whether a name may be the path of a Python file that defines ``attribute``.
    """

    kind: str
    package: str
    attribute: str
    group: str
    second_package: str = ""
    files: bool = False

    def names(self) -> list[str]:
        """Return every known name, without importing any of them."""
        return sorted(self._built_in().keys() | {e.name for e in installed(self.group)})

    def load(self, name: str) -> Any:
        """Return the entry called ``name``, or that of the Python file ``name``.

        Raises:
            UserError: There is none, with the nearest names; or the file is missing, fails, or defines none.
        """
        if self.files and name.endswith(FILE):
            return self._of_file(Path(name))
        for entry in installed(self.group):
            if entry.name == name:
                return entry.load()
        package = self._built_in().get(name)
        if package is None:
            _all_installed.cache_clear()  # find newly installed packages the next time
            _installed.cache_clear()
            unknown = unknown_name(self.kind, name, self.names())
            raise UserError(f"{unknown} Or give a file of your own: my_{self.kind}.py.") if self.files else unknown
        return getattr(importlib.import_module(f"{package}.{name}"), self.attribute)

    def _of_file(self, path: Path) -> Any:
        """Return the entry of a Python file, imported by its name, so that processes that are spawned can, too."""
        if not path.is_file():
            raise UserError(f"There is no {self.kind} {path}: the file is not there.")
        folder = str(path.resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)
        try:
            module = importlib.import_module(path.stem)
        except Exception as error:  # whatever the user's code raises
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise UserError(
                f"The {self.kind} {path} cannot be imported: {type(error).__name__}: {error} ({where.filename}, line"
                f" {where.lineno})."
            ) from error
        if Path(module.__file__ or "").resolve() != path.resolve():
            raise UserError(
                f"The {self.kind} {path} cannot be imported: another module is called {path.stem}. Rename the file."
            )
        if not hasattr(module, self.attribute):
            raise UserError(
                f"The file {path} is no {self.kind}: it does not define {self.attribute}, such as"
                f" {self.attribute} = My{self.kind.capitalize()}."
            )
        return getattr(module, self.attribute)

    def _built_in(self) -> dict[str, str]:
        """Return the package of each built-in entry."""
        packages = filter(None, (self.second_package, self.package))  # the first named has precedence
        paths = {package: importlib.import_module(package).__path__ for package in packages}
        modules = [(m.name, package) for package, path in paths.items() for m in pkgutil.iter_modules(path)]
        return {name: package for name, package in modules if not name.startswith("_")}
