"""Advantages over chunks of actions, alone and within groups, and the reward that they come from."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.language.rollouts import advantages, check_sparse, group_advantages, reward_of


def test_advantage_is_the_return_less_the_value_where_lambda_is_one() -> None:
    draw = torch.Generator().manual_seed(0)
    reward, value, last = (torch.rand(*shape, generator=draw) for shape in ((5, 3), (5, 3), (3,)))
    done = torch.zeros(5, 3, dtype=torch.bool)
    done[2, 0] = done[4, 1] = True
    found = advantages(reward, value, last, done, 0.9, 1.0)
    for robot in range(3):
        earned = last[robot]
        for k in reversed(range(5)):
            earned = reward[k, robot] + 0.9 * earned * (not done[k, robot])
            torch.testing.assert_close(found[k, robot], earned - value[k, robot])


def test_with_lambda_zero_it_is_the_error_of_one_step() -> None:
    reward, value, last = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.5], [3.0]]), torch.tensor([10.0])
    found = advantages(reward, value, last, torch.tensor([[False], [True]]), 0.5, 0.0)
    assert found.flatten().tolist() == [1.0 + 0.5 * 3.0 - 0.5, 2.0 - 3.0]


def test_groups_that_all_succeed_or_all_fail_teach_nothing() -> None:
    won = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
    gain, kept = group_advantages(won, 0.1, 0.9)
    assert kept.tolist() == [False, False, True]
    assert (gain[:2] == 0.0).all()
    assert gain[2].sum().item() == pytest.approx(0.0, abs=1e-6) and gain[2, 0] > 0.0 > gain[2, 1]
    assert not group_advantages(won, 0.6, 0.9)[1].any()


def test_reward_of_an_episode_is_highest_for_early_success_and_none_for_an_early_loss() -> None:
    def earned(reward: float, steps: int, done: bool, success: bool) -> float:
        result = SimpleNamespace(
            reward=torch.tensor([reward]),
            steps=torch.tensor([steps]),
            done=torch.tensor([done]),
            success=torch.tensor([success]),
        )
        return reward_of(result, 80).item()

    assert earned(-4.0, 4, False, False) == 0.0
    assert earned(-2.0, 2, True, False) == 0.0  # lost: no better than to go on
    assert earned(-1.0, 4, True, True) == pytest.approx(1.0 + 3.0 / 80.0)


def test_refuses_dense_rewards() -> None:
    check_sparse(SimpleNamespace(rewards="sparse"), "vla_ppo")
    with pytest.raises(UserError, match="rewards: dense is not allowed with vla_ppo"):
        check_sparse(SimpleNamespace(rewards="dense"), "vla_ppo")
