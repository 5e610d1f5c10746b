"""Definitions of message types as bags hold them: the .msg text, followed by that of each type that it uses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

_LINE = "=" * 80
_FIELD = re.compile(r"^([A-Za-z][\w/]*)(?:<=\d+)?(?:\[[^\]]*\])?\s+\w")
"""A field or constant, with its type."""

_PRIMITIVE = frozenset(
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
) | {"bool", "byte", "char", "float32", "float64", "string", "wstring"}  # fmt: skip


def definition_of(kind: str, read: Callable[[str, str], str | None] | None = None) -> str:
    """Return a message type's definition; empty if it, or a type that it uses, is not installed as .msg.

    Args:
        kind: The type, such as ``nav_msgs/msg/Odometry``.
        read: Returns a .msg file's text by package and name; None: that of the installed packages.
    """
    read = read or installed
    package, _, name = kind.partition("/msg/")
    texts: dict[tuple[str, str], str] = {}
    missing = [(package, name)]
    while missing:
        one = missing.pop()
        text = read(*one)
        if text is None:
            return ""
        texts[one] = text.rstrip("\n")
        missing += sorted(_used(one[0], text) - texts.keys() - set(missing), reverse=True)
    first, *rest = texts.items()
    return "\n".join([first[1], *(f"{_LINE}\nMSG: {'/'.join(which)}\n{text}" for which, text in rest)]) + "\n"


def installed(package: str, name: str) -> str | None:
    """Return the text of an installed .msg file; None if it is not there."""
    # the ROS wheels are installed where Python is
    for prefix in filter(None, (*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix)):
        path = Path(prefix, "share", package, "msg", f"{name}.msg")
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


def _used(package: str, text: str) -> set[tuple[str, str]]:
    """Return the types, by package and name, that a .msg file of a package uses."""
    found = set()
    for line in text.splitlines():
        match = _FIELD.match(line.strip())
        if match is None or match[1] in _PRIMITIVE:
            continue
        *others, name = match[1].split("/")
        found.add((others[0] if others else package, name))
    return found
