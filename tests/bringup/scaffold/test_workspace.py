"""`rlstack init`: the workspace installs, its names are known, and its own test passes."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from rlstack import cli
from rlstack.robots import load_robot
from rlstack.tasks import TASKS


def test_a_workspace_is_known_by_name_and_passes_its_own_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "own_ws"]) == 0
    assert "pip install --no-build-isolation -e ." in capsys.readouterr().out
    folder = tmp_path / "own_ws"
    subprocess.run([sys.executable, "setup.py", "-q", "egg_info"], cwd=folder, check=True, timeout=120)
    monkeypatch.syspath_prepend(str(folder))
    assert load_robot("own_ws_robot").kind == "quadrotor"
    assert TASKS.load("own_ws_task").__name__ == "OwnWsTask"

    launch = runpy.run_path(str(folder / "launch" / "deploy.launch.py"))["LAUNCH_FILE"]
    assert {a.name: a.default for a in launch.arguments}["robot"] == "own_ws_robot"
    runpy.run_path(str(folder / "test" / "test_own_ws.py"))["test_the_recipe_trains"](tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["there"], "never overwritten"),
        (["My-Robots"], "lower-case letters"),
        (["json"], "a Python module is called json"),
        (["file/own"], "is a file"),
    ],
)
def test_bad_input(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    assert cli.main(["init", *words]) == 2
    assert said in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"there", "file"}
