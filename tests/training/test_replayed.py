"""SAC with hindsight, and RLPD: they learn, keep their steps, go on, and refuse what they cannot learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalStep
from rlstack.training.algorithm import UsesFolder
from rlstack.training.algorithms.rlpd import RLPD, RLPDSettings
from rlstack.training.algorithms.sac import SAC, SACSettings
from tests.support.reaching import Reaching, success

SMALL: dict[str, Any] = {"hidden": (32, 32), "batch": 64, "warm_up": 200, "learning_rate": 3e-3, "gamma": 0.95}


def test_sac_learns_a_sparse_task_by_hindsight(tmp_path: Path) -> None:
    torch.manual_seed(1)
    algorithm = SAC(SACSettings(**SMALL), Reaching())
    assert isinstance(algorithm, UsesFolder)
    algorithm.open(tmp_path)
    before = success(algorithm)
    for k in range(22):
        logged = algorithm.iterate(k / 22).logged()
    assert success(algorithm) > 0.75 > 2.0 * before
    assert logged["train/lost_share"] == 0.0


def test_rlpd_learns_from_demonstrations_and_uses_them_again(tmp_path: Path) -> None:
    torch.manual_seed(2)
    settings = RLPDSettings(**SMALL, demonstrations=10, critics=3, updates=1.0, hindsight=0.0)
    algorithm = RLPD(settings, Reaching())
    algorithm.open(tmp_path)
    for k in range(28):
        algorithm.iterate(k / 28)
    assert success(algorithm) > 0.75
    assert algorithm.replay is not None
    prior = algorithm.replay.prior
    assert len(prior.buffer.episodes()) == 10
    rewards = prior.buffer.gather(prior.buffer.indices())["reward"]
    assert (rewards == 0.0).sum() == 10  # each succeeds once, at its end


def test_a_run_goes_on_with_its_steps(tmp_path: Path) -> None:
    torch.manual_seed(3)
    first = SAC(SACSettings(**SMALL), Reaching())
    first.open(tmp_path)
    for k in range(6):
        first.iterate(k / 10)
    state, held = first.state_dict(), len(first._experience or ())
    assert first._experience is not None
    first._experience.close()
    second = SAC(SACSettings(**SMALL), Reaching(seed=5))
    second.load_state_dict(state)
    second.open(tmp_path)
    assert second._experience is not None
    assert second._experience.state_dict() == first._experience.state_dict()  # what is drawn next, too
    second.iterate(0.6)
    assert len(second._experience or ()) == held + second.steps_per_iteration
    assert torch.isfinite(torch.cat([p.flatten() for p in second.actor().parameters()])).all()


def test_tasks_without_goals_are_refused() -> None:
    class Plain:
        task, pipeline, count = Reaching().task, Reaching().pipeline, 4

    with pytest.raises(UserError, match="sac is not allowed: ReachTask does not report what its steps achieve"):
        SAC(SACSettings(), Plain())  # type: ignore[arg-type]


def test_a_share_of_each_batch_is_demonstrated_which_may_change(tmp_path: Path) -> None:
    settings = RLPDSettings(hidden=(8,), batch=32, warm_up=0, demonstrations=2, critics=2, prior_share=0.25)
    algorithm = RLPD(settings, Reaching())
    algorithm.open(tmp_path)
    algorithm.iterate(0.0)
    assert [one["demonstrated"].sum() for one in algorithm._batches(3)] == [8.0] * 3
    algorithm.change(replace(settings, prior_share=0.01))
    (batch,) = algorithm._batches(1)
    assert batch["demonstrated"].tolist() == [0.0] * 31 + [1.0]  # never none, which could not be cloned


def test_demonstrations_of_an_expert_that_fails_are_an_error(tmp_path: Path) -> None:
    class Clumsy(Reaching):
        def expert_action(self) -> torch.Tensor:
            return torch.zeros(self.count, 2)

    algorithm = RLPD(RLPDSettings(**SMALL, demonstrations=5), Clumsy())
    with pytest.raises(UserError, match=r"succeeded in \d+ of \d+ episodes, but 5 demonstrations are required"):
        algorithm.open(tmp_path)


def test_to_fail_costs_as_much_as_never_to_succeed_where_only_time_costs() -> None:
    # it ends the episode, and so would save all the time that was left
    environment = Reaching()
    no, count = torch.zeros(3), torch.zeros(3, 2)
    done = torch.tensor([True, True, False])
    won, earned_before = torch.tensor([False, True, False]), torch.tensor([-1.0, 0.0, -1.0])
    step = GoalStep(count, count, earned_before, done, no.bool(), {}, count, count, count, won)
    for rewards, earned in (("sparse", [-20.0, 0.0, -1.0]), ("dense", [-1.0, 0.0, -1.0])):
        environment.task = SimpleNamespace(steps=environment.task.steps, rewards=rewards)  # type: ignore[assignment]
        algorithm = SAC(SACSettings(**SMALL, hindsight=0.0), environment)
        assert algorithm._earned(step).tolist() == pytest.approx(earned)
