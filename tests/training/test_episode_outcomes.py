"""Tasks without goals for algorithms that store steps, and datasets of their episodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlstack.demonstrations.task_file import TASK_FILE
from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.tasks.catalog.base_racing import RacingTask
from rlstack.training.algorithms.h2o import H2O, H2OSettings
from rlstack.training.algorithms.sac import SAC, SACSettings
from rlstack.training.algorithms.wsrl import WSRL, WSRLSettings
from rlstack.training.episode_outcomes import OutcomeEnvironment, with_outcomes
from rlstack.training.recorded_episodes import record_episodes

TASK = RacingTask(tracks=2, ray_step=180, front_step=60, episode_s=2.0)
SMALL: dict[str, Any] = {"hidden": (16,), "batch": 16, "critics": 2, "hindsight": 0.0, "warm_up": 16}


def cars(count: int = 4, task: RacingTask = TASK) -> Any:
    robot: Any = load_robot("racecar")
    return task.environment(robot, task.pipeline(robot), count, device="cpu", seed=1)


def faster(seen: Tensor) -> Tensor:
    """Return the actions of cars that go ever faster, straight on."""
    return torch.tensor([[1.0, 0.0]]).expand(len(seen), 2)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "laps"
    told = with_outcomes(cars())
    assert told is not None
    assert record_episodes(folder, told, faster, seconds=12.0) > 4  # they hit walls before their 2 s are over
    return folder


def test_what_ended_is_seen_before_it_begins_anew() -> None:
    environment = OutcomeEnvironment(cars())
    seen = environment.observe()[0].clone()
    ended = 0
    for _ in range(60):
        step = environment.step(faster(seen))
        done = step.done
        assert torch.equal(step.actor[~done], step.next_actor[~done])
        if done.any():
            # fast into a wall, and then at another place
            assert (step.next_actor[done] - step.actor[done]).abs().amax(dim=1).min() > 0.01
            assert not step.success.any()  # a race has no goal
        ended += int(done.sum())
        seen = step.actor.clone()
    assert ended > 4


def test_a_dataset_of_a_base_is_learned_from_with_its_rewards(dataset: Path, tmp_path: Path) -> None:
    settings = H2OSettings(**SMALL, dataset=str(dataset), learned_first=2, classifier_hidden=(8,), updates=1.0)
    algorithm = H2O(settings, cars())
    algorithm.open(tmp_path)
    assert algorithm.replay is not None and algorithm.replay.prior is not None
    held = algorithm.replay.prior.all_steps()
    lost = held["goes_on"] == 0.0
    assert 12.0 * 20.0 - 8 <= len(held["reward"]) <= 12.0 * 20.0  # an episode cut off loses its last step
    assert 0 < lost.sum() < 40 and held["reward"][lost].max() < -2.0 < held["reward"][~lost].mean()
    assert torch.equal(held["action"], faster(held["action"]))
    for k in range(2):
        logged = algorithm.iterate(k / 2).logged()
    assert all(value == value for value in logged.values()) and "loss/told_apart" in logged


def test_wsrl_learns_from_failures_if_it_may(dataset: Path) -> None:
    settings = {**SMALL, "dataset": str(dataset), "pretraining": 2}
    algorithm = WSRL(WSRLSettings(**settings, failures=True, cloning=0.0), cars())
    before = [array.clone() for array in algorithm.learner.actor.parameters()]
    algorithm.open(None)
    assert any(not torch.equal(*pair) for pair in zip(before, algorithm.learner.actor.parameters()))
    with pytest.raises(UserError, match="of which 0 succeeded"):
        WSRL(WSRLSettings(**settings), cars()).open(None)


def test_what_does_not_fit_is_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"hindsight: 0\.8 is not allowed: RacingTask has no goals to relabel: set 0"):
        SAC(SACSettings(**{**SMALL, "hindsight": 0.8}), cars())
    settings = H2OSettings(**SMALL, dataset=str(dataset))
    with pytest.raises(UserError, match=r"recorded with other weights of the reward \(progress\)"):
        H2O(settings, cars(task=RacingTask(tracks=2, reward=type(TASK.reward)(progress=2.0)))).open(tmp_path / "one")
    finer = RacingTask(tracks=2, ray_step=90, front_step=60)
    with pytest.raises(UserError, match=r"its feature 'policy\.observation'"):
        H2O(settings, cars(task=finer)).open(tmp_path / "two")
    with pytest.raises(UserError, match=f"{re.escape(TASK_FILE)} cannot be read"):
        H2O(H2OSettings(**SMALL, dataset=str(tmp_path / "none")), cars()).open(tmp_path)
