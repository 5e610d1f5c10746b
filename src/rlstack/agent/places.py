"""Named places of a robot's world, from a YAML file with the key ``places``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rlstack.errors import UserError
from rlstack.interfaces.instruction import split_words
from rlstack.schema import load, value
from rlstack.yaml_files import read_yaml

_ARTICLES = ("the", "a", "an")


@dataclass(frozen=True)
class _Places:
    places: dict[str, tuple[float, ...]] = value(unit="m")


def place_name(text: str) -> str:
    """Return the name of a place as it is looked up: in lower case, without articles and punctuation."""
    return " ".join(word for word in split_words(text) if word not in _ARTICLES)


def read_places(path: str | Path, taken: Collection[str] = ()) -> dict[str, tuple[float, ...]]:
    """Return the places of a file by name, (2,) or (3,) m in the frame of goals.

    Args:
        path: The file; empty: no places.
        taken: Words that are no names, because they mean something else.

    Raises:
        UserError: The file cannot be read, or a name or position is not allowed.
    """
    if not str(path):
        return {}
    found: dict[str, tuple[float, ...]] = {}
    for name, position in load(_Places, read_yaml(path, "the places file"), f"{path}").places.items():
        key = place_name(name)
        if not key or key in taken:
            raise UserError(f"{path}: places.{name}: the name is not allowed: it means something else in a sentence.")
        if key in found:
            raise UserError(f"{path}: places.{name}: there are two places of that name.")
        if len(position) not in (2, 3):
            raise UserError(f"{path}: places.{name}: {list(position)} is not allowed: must be 2 or 3 numbers, m.")
        found[key] = position
    return found
