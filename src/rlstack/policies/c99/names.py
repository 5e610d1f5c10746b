"""Names of C."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RESERVED = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "scratch_f",
        "scratch_n",
        "scratch_b",
    ]
)


def identifier(name: str) -> str:
    """Return a name as C allows it."""
    text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "policy"
    if text[0].isdigit():
        text = f"n{text}"
    return f"{text}_" if text in _RESERVED else text


def identifiers(names: Sequence[str]) -> list[str]:
    """Return a different name of C for each name."""
    found: list[str] = []
    for name in names:
        text = identifier(name)
        while text in found:
            text += "_"
        found.append(text)
    return found
