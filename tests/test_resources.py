"""Data is found in a checkout, in an installation's share folder, and where RLSTACK_SHARE points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rlstack
from rlstack.resources import find_resource, list_resources, share_directories


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mine"
    (folder / "recipes").mkdir(parents=True)
    (folder / "recipes" / "hover.yaml").write_text("first")
    monkeypatch.setenv("RLSTACK_SHARE", str(folder))
    return folder


def test_the_override_comes_first(share: Path) -> None:
    assert share_directories()[0] == share
    assert find_resource("recipes/hover.yaml") == share / "recipes" / "hover.yaml"


def test_an_override_that_is_not_there_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLSTACK_SHARE", str(tmp_path / "nowhere"))
    assert tmp_path / "nowhere" not in share_directories()


def test_what_is_nowhere_is_none_and_an_empty_listing(share: Path) -> None:
    assert find_resource("recipes/none.yaml") is None
    assert list_resources("no_such_folder", ".yaml") == {}


def test_a_listing_joins_all_folders_and_the_first_wins(
    share: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "prefix"
    other = prefix / "share" / "rlstack" / "recipes"
    other.mkdir(parents=True)
    (other / "hover.yaml").write_text("second")
    (other / "race.yaml").write_text("second")
    (other / "notes.txt").write_text("not a recipe")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path / 'missing'}{os.pathsep}{prefix}")
    found = list_resources("recipes", ".yaml")
    assert found["hover"] == share / "recipes" / "hover.yaml"
    assert found["race"] == other / "race.yaml"
    assert "notes" not in found


def test_an_installed_copy_finds_the_share_folder_of_its_prefix(tmp_path: Path) -> None:
    site = tmp_path / "prefix" / "lib" / "python3" / "site-packages"
    (site / "rlstack").mkdir(parents=True)
    for name in ("__init__.py", "resources.py"):
        shutil.copy(Path(rlstack.__file__).parent / name, site / "rlstack" / name)
    target = tmp_path / "prefix" / "share" / "rlstack" / "sim" / "room.xml"
    target.parent.mkdir(parents=True)
    target.write_text("<mujoco/>")
    code = "from rlstack.resources import find_resource; print(find_resource('sim/room.xml'))"
    environment = {k: v for k, v in os.environ.items() if k not in ("RLSTACK_SHARE", "AMENT_PREFIX_PATH")}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(run.stdout.strip()) == target
