"""Robots in one process, the learner in another: either may die, and both go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.training import learner_process, run
from rlstack.training.algorithm import NotFinite
from rlstack.training.algorithms.hil_serl import HILSERL, HILSERLSettings
from rlstack.training.algorithms.rlpd_camera import RLPDCameraSettings
from rlstack.training.recipe import recipe_from_data
from tests.support.reaching import Reaching

SETTINGS = HILSERLSettings(
    hidden=(16,), batch=32, warm_up=64, demonstrations=5, critics=2, updates=0.5, apart=True, lead=1
)


@pytest.mark.integration
def test_a_learner_that_dies_leaves_the_robots_at_the_end_of_their_episodes_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    environment = Reaching()
    algorithm = HILSERL(SETTINGS, environment)
    algorithm.open(tmp_path)
    assert algorithm.learner_process is not None and algorithm._experience is not None
    before = algorithm.actor().state_dict()["mean.bias"].clone()
    for _ in range(4):
        algorithm.iterate(0.0)
    assert algorithm.learner_process.updates >= 0.5 * (3 * 64 - 64) - 0.5 * 64
    assert not torch.equal(algorithm.actor().state_dict()["mean.bias"], before)
    first, steps = algorithm.learner_process._process.pid, len(algorithm._experience)
    assert first not in (0, os.getpid())
    os.kill(first, signal.SIGKILL)
    assert algorithm.learner_process._process is not None
    algorithm.learner_process._process.wait()
    learned = algorithm.learner_process.updates
    age = environment.age.clone()
    told: list[list[int]] = []
    start = algorithm.learner_process.start
    monkeypatch.setattr(algorithm.learner_process, "start", lambda: (told.append(environment.age.tolist()), start()))
    algorithm.iterate(0.0)
    assert algorithm.learner_process.running and algorithm.learner_process._process.pid != first
    assert told == [[0] * 8], "no episode went on, and no other one had begun"
    # what was counted is what was kept: each robot's way to the end of its episode, and then the iteration's
    extra = algorithm.extra_steps
    assert 0 < extra <= int((20 - age).sum()) < 8 * 20
    assert len(algorithm._experience) == steps + extra + algorithm.steps_per_iteration
    assert algorithm._steps == len(algorithm._experience)
    buffer = algorithm._experience.buffer
    kept = buffer.gather(buffer.indices())
    moved = kept["next_observation"][:, :2] - kept["observation"][:, :2]
    went = 0.1 * np.clip(kept["action"], -1.0, 1.0)
    np.testing.assert_allclose(moved, went, atol=1e-5)  # no step leads to another episode's start
    # the robots' process dies: the learner saves and ends; who comes next finds both
    state = algorithm.state_dict()
    assert state["extra_steps"] == extra
    for _ in range(3):
        algorithm.iterate(0.0)
    algorithm.close()
    assert not algorithm.learner_process.running
    held = len(algorithm._experience)
    algorithm._experience.close()
    algorithm.replay.prior.close()  # type: ignore[union-attr]
    algorithm.interventions.close()  # type: ignore[union-attr]
    again = HILSERL(SETTINGS, Reaching(seed=3))
    again.load_state_dict(state)
    again.open(tmp_path)
    assert again.learner_process is not None and again._experience is not None
    again.iterate(0.0)
    assert again.learner_process.updates >= learned
    assert len(again._experience) == held + again.steps_per_iteration
    again.close()


@pytest.mark.integration
def test_a_learner_that_diverges_ends_the_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    algorithm = HILSERL(SETTINGS, Reaching())
    for weights in algorithm.learner.critics.parameters():
        torch.nn.init.constant_(weights, float("nan"))
    algorithm.open(tmp_path)
    with pytest.raises(NotFinite, match=r"mean in an update is not finite$"):
        for _ in range(10):
            algorithm.iterate(0.0)
    algorithm.close()


def test_what_diverged_is_not_saved_when_the_learner_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = HILSERL(SETTINGS, Reaching())
    for weights in algorithm.learner.critics.parameters():
        torch.nn.init.constant_(weights, float("nan"))
    monkeypatch.setattr(learner_process.LearnerProcess, "start", lambda self: None)
    monkeypatch.setattr(learner_process.LearnerProcess, "running", True)
    algorithm.open(tmp_path)
    for _ in range(2):
        algorithm.iterate(0.0)
    assert algorithm.learner_process is not None
    algorithm.learner_process.report(algorithm._steps, 0.0)
    handlers: dict[int, Callable[..., None]] = {}
    asked: list[Path] = []

    def told(folder: Path) -> tuple[int, float]:
        asked.append(folder)
        if len(asked) == 3:
            handlers[signal.SIGTERM](signal.SIGTERM, None)
        return 128, 0.0

    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(learner_process, "die_with_parent", lambda parent: None)
    monkeypatch.setattr(learner_process, "_progress", told)
    monkeypatch.setattr(learner_process, "_PUBLISH_S", 1e9)
    with pytest.raises(NotFinite, match=r"mean in an update is not finite$"):
        learner_process.learn(tmp_path / learner_process.LEARNER, os.getpid())
    assert len(asked) == 3
    assert torch.load(tmp_path / learner_process.LEARNER / "state.pt", weights_only=True)["updates"] == 0


@pytest.mark.integration
@pytest.mark.parametrize(("algorithm", "more"), [("sac", {}), ("rlpd", {"demonstrations": 4, "critics": 2})])
def test_it_relabels_goals_of_the_runs_own_task(tmp_path: Path, algorithm: str, more: dict[str, Any]) -> None:
    learning = {"hidden": [16], "batch": 32, "warm_up": 64, "updates": 0.25, "hindsight": 0.5, "apart": True, "lead": 1}
    data = {"name": "apart", "task": "arm_reach", "robot": "panda", "algorithm": algorithm, "envs": 8, "steps": 512}
    data |= {
        "threads": 1,
        "task_settings": {"rewards": "sparse"},
        "algorithm_settings": {**learning, **more},
        "selection": {"episodes": 8, "after": 1.0},
    }
    result = run.start(recipe_from_data(data, "test"), tmp_path / "run")
    assert result.policy.is_file()
    state = torch.load(tmp_path / "run" / learner_process.LEARNER / "state.pt", weights_only=True)
    assert state["updates"] >= 0.25 * (512 - 64 - 2 * 64), "the robots waited for it, one iteration ahead at most"


def test_it_needs_a_folder_and_no_hindsight_with_an_encoder() -> None:
    with pytest.raises(ValueError, match="hindsight: must be 0 with apart"):
        RLPDCameraSettings(apart=True, hindsight=0.5)
    with pytest.raises(UserError, match="needs a run's folder"):
        HILSERL(SETTINGS, Reaching()).open(None)
