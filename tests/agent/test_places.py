from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.agent.grammar import RESERVED
from rlstack.agent.places import read_places
from rlstack.errors import UserError


def written(folder: Path, text: str) -> Path:
    path = folder / "places.yaml"
    path.write_text(text)
    return path


def test_places_are_read_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "places:\n  The Kitchen: [2, 1]\n  red door: [1.0, 2.0, 1.5]\n")
    assert read_places(path, RESERVED) == {"kitchen": (2.0, 1.0), "red door": (1.0, 2.0, 1.5)}
    assert read_places("") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("places: {back: [1, 2]}", "places.back: the name is not allowed"),
        ("places: {'the': [1, 2]}", "the name is not allowed"),
        ("places: {door: [1, 2], Door: [1, 3]}", "two places of that name"),
        ("places: {door: [1]}", "must be 2 or 3 numbers"),
        ("places: {door: [1, .nan]}", "must be a finite number"),
        ("place: {door: [1, 2]}", "Unknown key 'place'"),
    ],
)
def test_places_that_are_not_allowed_are_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_places(written(tmp_path, text), RESERVED)
