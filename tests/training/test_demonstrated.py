"""Demonstrations in a run's folder: those that are there are used again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.training.demonstrated import open_demonstrations
from tests.support.reaching import Reaching


def test_more_than_there_is_room_for_are_refused_and_what_is_there_is_kept(tmp_path: Path) -> None:
    first = open_demonstrations(Reaching(), tmp_path, 6)
    held = len(first.buffer)
    first.close()
    with pytest.raises(
        UserError, match=r"demonstrations: 400 do not fit into .*, which was made for fewer and holds 6:"
    ):
        open_demonstrations(Reaching(), tmp_path, 400)
    again = open_demonstrations(Reaching(), tmp_path, 6)
    assert len(again.buffer) == held and len(again.buffer.episodes()) == 6
