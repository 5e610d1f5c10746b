"""The tutorials are short, and their files and commands fit one another; the whole path runs with `-m learning`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlstack import cli
from rlstack.robots import load_robot
from rlstack.training.command import parse_recipe
from tests.support import docs

EACH = pytest.mark.parametrize("page", [f"docs/tutorials/my-{what}.md" for what in ("drone", "arm", "base")])


def commands(page: str) -> list[str]:
    return [line for block in docs.blocks(page, "sh") for line in block.split("\n") if line]


@pytest.fixture
def folder(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, and work in it, with the files that a page has its reader save."""
    for name, content in docs.files(page).items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # a task's folder is added, and another test has its own
    for path in tmp_path.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return tmp_path


def run(line: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rlstack", *line.split()[1:]], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@EACH
def test_there_are_fewer_than_40_lines_to_type(page: str) -> None:
    lines = [line for content in docs.files(page).values() for line in content.split("\n") if line.strip()]
    assert len(docs.files(page)) == 2
    assert len(lines + commands(page)) < 40


@EACH
def test_its_robot_does_its_task_and_its_model_is_shown(
    page: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (training,) = (line for line in commands(page) if line.startswith("rlstack train "))
    for line in commands(page)[: commands(page).index(training)]:
        assert cli.main(line.split()[1:]) == 0
    printed = capsys.readouterr().out
    assert all(block in printed for block in docs.blocks(page, "console"))
    recipe = parse_recipe(training.split()[2], training.split()[3:]).recipe
    task = recipe.task_settings
    assert Path(recipe.robot).suffix == ".yaml" and type(task).__module__.partition(".")[0] != "rlstack"
    assert task.pipeline(task.reference(load_robot(recipe.robot))).size > 0


@EACH
@pytest.mark.learning
@pytest.mark.timeout(3600)
def test_the_whole_path_ends_at_a_proven_policy(page: str, folder: Path) -> None:
    for line in commands(page):
        run(line.replace(" --view", " --lock-step --seconds 5"))
