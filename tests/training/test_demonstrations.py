"""Demonstrations in a run's folder: those that are there are used again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.data.replay import ReplayBuffer
from rlstack.errors import UserError
from rlstack.training.demonstrations import open_demonstrations
from tests.support.reaching import Reaching


def test_more_than_there_is_room_for_are_refused_and_what_is_there_is_kept(tmp_path: Path) -> None:
    first = open_demonstrations(Reaching(), tmp_path, 6)
    held = len(first.buffer)
    first.close()
    with pytest.raises(
        UserError, match=r"demonstrations: 400 do not fit into .*, which was created for fewer and holds 6:"
    ):
        open_demonstrations(Reaching(), tmp_path, 400)
    again = open_demonstrations(Reaching(), tmp_path, 6)
    assert len(again.buffer) == held and len(again.buffer.episodes()) == 6


def test_a_kill_while_they_are_written_leaves_none_that_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_demonstrations(Reaching(), tmp_path / "whole", 6)
    left, add = [len(whole.buffer) - 2], ReplayBuffer.add

    def killed(self: ReplayBuffer, *given: object) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return add(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ReplayBuffer, "add", killed)
        open_demonstrations(Reaching(), tmp_path / "cut", 6)
    again = open_demonstrations(Reaching(), tmp_path / "cut", 6)
    assert len(again.buffer.episodes()) == 6
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == ["demonstrations"]
    assert (again.buffer.gather(again.buffer.indices())["goes_on"] == 0.0).sum() == 6, "each of them succeeds"
