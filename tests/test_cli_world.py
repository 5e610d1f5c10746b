"""`rlstack world`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from rlstack import cli
from rlstack.sim.world import load_world, world_names


def test_without_a_name_the_worlds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["world"]) == 0
    assert capsys.readouterr().out.split() == world_names()


def test_a_world_is_described_drawn_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    files = {"--map": tmp_path / "map.png", "--sdf": tmp_path / "room.sdf"}
    assert cli.main(["world", "room:2", *(str(word) for pair in files.items() for word in pair)]) == 0
    assert capsys.readouterr().out.startswith("world room:2")
    assert files["--map"].read_bytes().startswith(b"\x89PNG")
    felt = ElementTree.parse(files["--sdf"]).getroot().findall(".//collision")
    assert len(felt) == 1 + len(load_world("room:2").obstacles)  # and the floor


def test_an_unknown_world_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["world", "rom"]) == 2
    assert "Nearest: room" in capsys.readouterr().err
