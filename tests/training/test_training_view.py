from __future__ import annotations

import io
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch

from rlstack.robots import load_robot
from rlstack.training import run, training_view
from rlstack.training.training_view import TrainingView
from rlstack.view.server import ViewServer
from tests.support.learning import small_recipe

pytest.importorskip("viser")


def test_curves_and_the_best_policy_are_shown_once_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small_recipe()
    monkeypatch.setattr(training_view, "TRIALS", 1)
    server = ViewServer()
    page = training_view._Page(server, recipe.task_settings, load_robot(recipe.robot))
    best: list[int] = []

    def show(graph: Any, contract: Any, steps: int) -> None:
        file = io.BytesIO()
        torch.save((graph, contract), file)
        page.take("policy", (file.getvalue(), steps))
        best.append(steps)

    try:
        run.start(recipe, tmp_path / "run", on_best=show)
        for steps in (512, 1024):
            page.take("figures", (steps, {"success": steps / 2048}))
        assert page._said.content.startswith("A policy is shown in trials once")
        page.draw()
        assert server.viser.scene.get_handle_by_name("/replay/0") is None, "it simulated, and nobody looked"
        monkeypatch.setattr(ViewServer, "watched", True)
        page.draw()
        assert server.viser.scene.get_handle_by_name("/replay/0/0/robot") is not None
        assert f"after {best[-1]:,} steps" in page._said.content
        assert page._plots["success"].data[1].tolist() == [0.25, 0.5]
    finally:
        server.close()


def test_the_page_is_there_while_training_runs_and_ends_with_it() -> None:
    recipe = small_recipe()
    with TrainingView(recipe.task_settings, load_robot(recipe.robot)) as view:
        with urllib.request.urlopen(view.url, timeout=10.0) as answer:
            assert answer.status == 200
        process = view.process
        assert process.is_alive()
    assert not process.is_alive()
