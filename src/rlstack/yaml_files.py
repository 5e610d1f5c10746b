"""Read YAML from anyone: bounded in size, depth and aliases, and every refusal is a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rlstack.errors import UserError

MAX_BYTES = 2**20
"""Size of a file: the largest robot file has 20 kB."""

MAX_DEPTH = 50
"""Lists and mappings within each other."""

MAX_VALUES = 50_000
"""Values and keys, counted once for every alias to them."""

# What PyYAML raises for scalars that are not what their form or tag says, such as dates in a 13th month.
_NO_VALUE = (ValueError, OverflowError, IndexError, AttributeError, TypeError, KeyError, RecursionError)


class _TooMuch(yaml.YAMLError):
    """The file is beyond one of the bounds."""


class _Loader(yaml.SafeLoader):
    """A safe loader that counts as it goes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._deepest = self._values = 0
        self._sizes: dict[int, tuple[int, int]] = {}
        """Values in each complete node and levels below it, by its identity: all live as long as the loader."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node within the bounds."""
        line = self.peek_event().start_mark.line + 1
        values, deepest = self._values, self._deepest
        self._depth += 1
        self._values += 1
        self._deepest = self._depth
        self._check(line)
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias:
            if id(node) not in self._sizes:
                raise _TooMuch(f"line {line}: an alias stands within what it refers to")
            more, levels = self._sizes[id(node)]
            self._values += more
            self._deepest += levels
            self._check(line)
        self._sizes.setdefault(id(node), (self._values - values, self._deepest - self._depth))
        self._depth -= 1
        self._deepest = max(deepest, self._deepest)
        return node

    def _check(self, line: int) -> None:
        if self._deepest > MAX_DEPTH:
            raise _TooMuch(f"line {line}: more than {MAX_DEPTH} lists and mappings are within each other")
        if self._values > MAX_VALUES:
            raise _TooMuch(f"line {line}: more than {MAX_VALUES:,} values, those of aliases counted every time")


def read_yaml(path: str | Path, what: str) -> Any:
    """Return the content of a YAML file.

    Args:
        path: The file.
        what: Its name in errors, such as ``the robot file``.

    Raises:
        UserError: It cannot be read, is no text or no YAML, or is beyond the bounds of this module.
    """
    return parse_yaml(read_text(path, what), f"{what} {path}")


def read_text(path: str | Path, what: str, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file of at most ``max_bytes``; arguments and errors as :func:`read_yaml`."""
    data = read_bytes(path, what, max_bytes)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"Cannot read {what} {path}: line {line} is not UTF-8 text. Save it as UTF-8.") from error


def read_bytes(path: str | Path, what: str, max_bytes: int) -> bytes:
    """Return the content of a file of at most ``max_bytes``; arguments as :func:`read_yaml`.

    Raises:
        UserError: It cannot be read, is not a regular file, or is larger.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"Cannot read {what} {path}: it is not a regular file. Give the path of a file.")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise UserError(f"Cannot read {what} {path}: {error.strerror}.") from error
    if len(data) > max_bytes:
        raise UserError(
            f"Cannot read {what} {path}: it has more than {max_bytes // 2**20} MiB. Check that it is the right file."
        )
    return data


def parse_yaml(text: str, where: str) -> Any:
    """Return the content of YAML text.

    Args:
        text: The text.
        where: Its name in errors.

    Raises:
        UserError: It is no YAML, or is beyond the bounds of this module.
    """
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise UserError(f"{_capital(where)} is not valid YAML: {' '.join(str(error).split())}.") from error
    except _NO_VALUE as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{_capital(where)} is not valid YAML: a number, date or tag in it cannot be read ({said[:200]})."
        ) from error
    finally:
        if loader is not None:
            loader.dispose()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
