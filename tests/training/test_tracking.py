"""Trackers: a run's figures reach each real library that is installed; whatever they do, training goes on."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlstack.errors import UserError
from rlstack.training import run, tracking
from rlstack.training.recipe import check_recipe
from rlstack.training.run_files import TRACKED
from rlstack.training.tracking import Tracking
from tests.support.learning import small_recipe

BOOKED = replace(small_recipe(), tracker="book")


class Book:
    """A tracker that keeps what it is given, and fails or hangs where a test says so."""

    taken: ClassVar[list[Any]]
    fails_at: int | None = None
    hangs: threading.Event | None = None

    def __init__(self, name: str, folder: Path, recipe: Mapping[str, Any], run: str | None) -> None:
        if self.fails_at == 0:
            raise ConnectionError("the service refused\nthe connection")
        self.run, self.place = run or "first", "a book"
        self.taken.append((name, recipe["name"], run))

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        if self.hangs is not None:
            self.hangs.wait()
        if len(self.taken) == self.fails_at:
            raise OSError("the server has gone away.")
        self.taken.append((dict(scalars), step))

    def finish(self, figures: Mapping[str, float], policy: Path | None) -> None:
        self.taken.append((dict(figures), policy))


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Book]]:
    class Fresh(Book):
        taken: ClassVar[list[Any]] = []

    class Known:
        @staticmethod
        def load(name: str) -> type[Book]:
            return Fresh

    monkeypatch.setattr(tracking, "TRACKERS", Known)
    yield Fresh


def test_an_unknown_one_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"Unknown tracker 'mlfow'. Nearest: mlflow. Known: aim, mlflow, wandb"):
        check_recipe(small_recipe(tracker="mlfow"), "here")


@pytest.mark.parametrize("name", ["mlflow", "wandb", "aim"])
def test_a_missing_library_is_refused_before_the_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"The tracker {name} cannot be opened: .* pip install 'rlstack\[{name}\]'"):
        run.start(small_recipe(tracker=name), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_tells_its_figures_and_goes_on_where_it_was(book: type[Book], tmp_path: Path) -> None:
    with Tracking(BOOKED, tmp_path) as told:
        told.log({"loss/value": 2.0}, 64)
    policy = tmp_path / "policy.onnx"
    with Tracking(BOOKED, tmp_path) as told:
        told.log({"loss/value": 1.0}, 128)
        told.finish({"success": 0.5}, policy)
    assert book.taken == [
        (tmp_path.name, "small", None),
        ({"loss/value": 2.0}, 64),
        ({}, None),
        (tmp_path.name, "small", "first"),
        ({"loss/value": 1.0}, 128),
        ({"best/success": 0.5}, policy),
    ]
    assert (tmp_path / TRACKED).read_text() == '{"book": "first"}\n'


def test_a_service_that_refuses_ends_a_run_before_its_work(book: type[Book], tmp_path: Path) -> None:
    book.fails_at = 0
    with pytest.raises(UserError, match=r"cannot be opened: the service refused the connection\. Mend that"):
        run.start(BOOKED, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_service_that_goes_away_ends_no_training(
    book: type[Book], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book.fails_at = 3
    recipe = replace(BOOKED, selection=replace(BOOKED.selection, after=1.0))
    result = run.start(recipe, tmp_path / "run")
    assert result.finished and result.policy.is_file() and len(book.taken) == 3
    said = capsys.readouterr().err
    assert said.count("Tracker book") == 2
    assert "Tracker book gets no more figures: the server has gone away. Training goes on" in said


def test_a_service_that_hangs_holds_nothing_up(
    book: type[Book], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    book.hangs = threading.Event()
    monkeypatch.setattr(tracking, "CLOSING_S", 0.01)
    monkeypatch.setattr(tracking, "_WAITING", 4)
    with Tracking(BOOKED, tmp_path) as told:
        for step in range(20):
            told.log({"loss/value": 1.0}, step)
    book.hangs.set()
    said = capsys.readouterr().err
    assert "gets no more figures: it takes too long" in said and "has not taken the rest within" in said


def _installed(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: pip install 'rlstack[{name}]'")


def _tracked(name: str, folder: Path) -> str:
    """Track two iterations and an end, and two more after it; return the run's identity."""
    folder.mkdir()
    policy = folder / "policy.onnx"
    policy.write_bytes(b"a policy")
    told = Tracking(small_recipe(tracker=name), folder)
    with told:
        told.log({"train/lost_share": 0.5, "loss/value": 2.0}, 64)
        told.log({"train/lost_share": 0.25}, 128)
        told.finish({"success": 0.75}, policy)
    with Tracking(small_recipe(tracker=name), folder) as again:
        again.log({"train/lost_share": 0.125}, 192)

    return str(json.loads((folder / TRACKED).read_text())[name])


@pytest.mark.integration
def test_mlflow_has_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    number = _tracked("mlflow", tmp_path / "run")
    from mlflow import MlflowClient

    client = MlflowClient()
    kept = client.get_run(number)
    assert kept.data.params["algorithm_settings.rollout"] == "8" and kept.data.metrics["best/success"] == 0.75
    steps = [(one.step, one.value) for one in client.get_metric_history(number, "train/lost_share")]
    assert steps == [(64, 0.5), (128, 0.25), (192, 0.125)]
    assert [file.path for file in client.list_artifacts(number)] == ["policy.onnx"]
    assert kept.info.run_name == "run" and kept.info.status == "KILLED"  # the second part did not end by itself


@pytest.mark.integration
def test_wandb_has_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    number = _tracked("wandb", tmp_path / "run")
    files = list((tmp_path / "run" / "wandb").glob(f"offline-run-*-{number}/run-{number}.wandb"))
    assert files and sum(b"train/lost_share" in file.read_bytes() for file in files) >= 1


@pytest.mark.integration
def test_aim_has_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed("aim")
    monkeypatch.setenv("AIM_REPO", str(tmp_path))
    number = _tracked("aim", tmp_path / "run")
    from aim import Run

    # not read only: that needs the index of `aim up`
    kept = Run(run_hash=number, repo=str(tmp_path), system_tracking_interval=None, capture_terminal_logs=False)
    assert kept["recipe"]["algorithm_settings"]["rollout"] == 8 and kept["best"]["best/success"] == 0.75
    (metric,) = [one for one in kept.metrics() if one.name == "train/lost_share"]
    steps, columns = metric.data.items_list()
    kept.close()
    assert steps == [64, 128, 192] and columns[0] == [0.5, 0.25, 0.125]
