"""WSRL: what it knows before its first step, and what it keeps after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.training.algorithms.wsrl import WSRL, WSRLSettings, earned
from rlstack.training.demonstrations import open_demonstrations
from tests.support.reaching import Reaching, success

SMALL: dict[str, Any] = {"hidden": (32,), "batch": 64, "warm_up": 64, "critics": 2, "learning_rate": 5e-3}


def test_what_was_earned_is_the_discounted_sum_to_the_end(tmp_path: Path) -> None:
    prior = open_demonstrations(Reaching(), tmp_path, 6)
    returns = earned(prior, 0.9)
    for first, last in prior.buffer.episodes():
        rewards = prior.buffer.gather(np.arange(first, last))["reward"]
        for k in range(len(rewards)):
            expected = sum(0.9**i * reward for i, reward in enumerate(rewards[k:]))
            assert returns[first + k].item() == pytest.approx(expected, abs=1e-4)


def test_it_can_do_it_before_its_first_step_and_goes_on_without_demonstrations(tmp_path: Path) -> None:
    torch.manual_seed(0)
    algorithm = WSRL(WSRLSettings(**SMALL, demonstrations=30, pretraining=150), Reaching())
    before = success(algorithm)
    algorithm.open(tmp_path)
    assert success(algorithm) > 0.5 > 2.0 * before
    state = algorithm.state_dict()
    algorithm.iterate(0.0)
    assert algorithm._experience is not None
    assert len(algorithm._experience) == algorithm.steps_per_iteration  # nothing else is learned from now
    again = WSRL(WSRLSettings(**SMALL, demonstrations=30, pretraining=150), Reaching(seed=4))
    again.load_state_dict(state)
    again.open(None)
    for name, tensor in again.actor().state_dict().items():
        assert torch.equal(tensor, state["learner"]["actor"][name])  # it is not pretrained again
