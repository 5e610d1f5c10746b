"""The notebook in examples/ runs from its first cell to its last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

SHORT = {
    '("quadrotor_hover", [])': '("quadrotor_hover", ["--steps", "2048", "--selection.episodes", "4"])',
    'backends=["batch", "mujoco"]': 'backends=["batch"], episodes=4, replay=False',
}
"""A moment's training and verification, for the tests of every day."""


def cells() -> list[str]:
    """Return the program of each cell."""
    notebook = json.loads((ROOT / "examples" / "04_train_prove_watch.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and not any(cell.get("outputs") for cell in notebook["cells"])
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("short", [True, pytest.param(False, marks=[pytest.mark.learning, pytest.mark.timeout(1800)])])
def test_every_cell_runs(
    short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("BROWSER", "true")  # the program that does nothing opens the report
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in cells():
        for what, instead in SHORT.items() if short else ():
            cell = cell.replace(what, instead)
        exec(compile(cell, "cell", "exec"), names)
    said = capsys.readouterr().out
    assert (tmp_path / "runs" / "notebook-001" / "curves.png").is_file()
    assert "report.html" in said and said.rstrip().endswith("rad/s")
    assert "PASSED" in said or short or "not passed" in said.lower()
    if not short:
        assert names["result"].evaluation["success"] > 0.95  # type: ignore[attr-defined]
