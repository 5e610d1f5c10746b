"""Names of C."""

from __future__ import annotations

import re
from collections.abc import Sequence

_C = """auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while"""

_CPP = """alignas alignof and asm bitand bitor bool catch class compl concept consteval constexpr constinit decltype
delete explicit export false friend module mutable namespace new noexcept not nullptr operator or override private
protected public requires static_assert template this thread_local throw true try typeid typename using virtual xor"""

_HEADERS = "errno limits math stddef stdint stdlib string"

_RESERVED = frozenset(" ".join((_C, _CPP, _HEADERS, "scratch_f scratch_n scratch_b")).split())
"""Keywords, of C++ because it takes the header, too; standard headers, which a policy's would hide; own members."""


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
