"""Behaviour cloning: it learns what is shown, goes on exactly, and keeps episodes apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.algorithms.bc import BC, BCSettings, Cloner, CloneSettings, steps_of
from rlstack.training.hindsight_replay import HindsightReplay, keep_episode
from tests.support.reaching import Reaching, success

SMALL: dict[str, Any] = {"hidden": (64,), "batch": 64, "demonstrations": 60, "learning_rate": 5e-3}


def test_it_does_what_was_demonstrated(tmp_path: Path) -> None:
    torch.manual_seed(0)
    algorithm = BC(BCSettings(**SMALL, chunk=4, history=2), Reaching())
    algorithm.open(tmp_path)
    before = success(algorithm)
    for k in range(7):
        logged = algorithm.iterate(k / 7).logged()
    assert success(algorithm) > 0.9 > 2.0 * before
    assert logged["loss/clone"] < 0.3


def test_it_goes_on_exactly(tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = BC(BCSettings(**SMALL, chunk=3), Reaching())
    first.open(tmp_path)
    first.iterate(0.0)
    state = first.state_dict()
    first.iterate(0.5)
    second = BC(BCSettings(**SMALL, chunk=3), Reaching(seed=5))
    second.load_state_dict(state)
    second.open(tmp_path)
    second.iterate(0.5)
    for name, mine in first.actor().state_dict().items():
        assert torch.equal(mine, second.actor().state_dict()[name]), name


def test_steps_keep_to_their_episodes(tmp_path: Path) -> None:
    kept = HindsightReplay(Reaching(), 1000, tmp_path, lanes=1)
    for length in (3, 1, 4):
        keep_episode(kept.buffer, [row(10.0 * length + k) for k in range(length + 1)])
    seen, done, bounds = steps_of(kept)
    assert seen[:, 0].tolist() == [30, 31, 32, 10, 40, 41, 42, 43]
    assert done[:, 0].tolist() == [31, 32, 33, 11, 41, 42, 43, 44]
    assert bounds.tolist() == [[0, 2]] * 3 + [[3, 3]] + [[4, 7]] * 4


def row(number: float) -> dict[str, np.ndarray]:
    one = np.float32(number)
    return {
        "observation": np.full(4, one),
        "achieved": np.full(2, one),
        "action": np.full(2, one),
        "reward": np.array(one),
        "goes_on": np.array(one),
    }


def test_nothing_is_learned_beyond_an_episodes_end() -> None:
    cloner = Cloner(CloneSettings(hidden=(32,), batch=64, chunk=3, learning_rate=1e-2), 2, 1, 0)
    seen = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    done, bounds = torch.tensor([[0.5], [-0.5]]), torch.tensor([[0, 0], [1, 1]])
    for _ in range(150):
        cloner.update(seen, done, bounds, 0.0)
    planned = cloner.actor.plan(seen[:, None])
    assert torch.allclose(planned[:, 0], done, atol=0.05)


def test_a_plan_shorter_than_what_is_carried_out_is_an_error() -> None:
    with pytest.raises(ValueError, match="executed: 5 is not allowed: must be at most chunk"):
        BCSettings(chunk=4, executed=5)


def test_a_dataset_that_is_none_is_refused(tmp_path: Path) -> None:
    algorithm = BC(BCSettings(**SMALL, dataset="somewhere"), Reaching())
    with pytest.raises(UserError, match=r"somewhere/meta/rlstack\.json cannot be read"):
        algorithm.open(tmp_path)
