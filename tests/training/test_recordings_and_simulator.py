"""H2O and RO2O: where the simulator differs from what was recorded, and what is learned from both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.training.algorithms.h2o import H2O, H2OSettings
from rlstack.training.algorithms.ro2o import RO2O, RO2OSettings
from rlstack.training.demonstrations import open_demonstrations
from rlstack.training.dynamics_gap import DynamicsGap
from tests.support.reaching import Reaching, success

SMALL: dict[str, Any] = {
    "hidden": (32, 32),
    "batch": 64,
    "critics": 3,
    "drawn_critics": 2,
    "learning_rate": 3e-3,
    "gamma": 0.95,
    "updates": 1.0,
    "hindsight": 0.0,
    "dataset": "recorded before",
}


def steps(count: int, generator: torch.Generator, recorded: bool) -> dict[str, Tensor]:
    """Return steps of points that a simulator moves by the whole action; the robot, right of 0, by half of it."""
    seen, action = (2.0 * torch.rand(count, 2, generator=generator) - 1.0 for _ in range(2))
    share = torch.where((seen[:, :1] > 0.0) & recorded, 0.5, 1.0)
    after = seen + 0.1 * share * action + 0.002 * torch.randn(count, 2, generator=generator)
    told = torch.full((count,), float(recorded))
    return {"observation": seen, "action": action, "next_observation": after, "demonstrated": told}


def test_the_steps_that_the_simulator_takes_otherwise_are_found() -> None:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    gap = DynamicsGap(2, 2, generator, (64,), learning_rate=4e-3)
    gap.measure(steps(1000, generator, recorded=True))
    for _ in range(250):
        halves = [steps(128, generator, recorded) for recorded in (True, False)]
        gap.update({name: torch.cat([half[name] for half in halves]) for name in halves[0]})
    simulated = steps(1000, generator, recorded=False)
    apart = (simulated["observation"][:, 0] > 0.1) & (simulated["action"].norm(dim=1) > 0.5)
    same = simulated["observation"][:, 0] < -0.1
    ratio, divergence = gap.ratio(simulated), gap.divergence(simulated)
    assert ratio[apart].mean() < 0.35 and ratio[same].mean() > 0.75
    assert divergence[apart].mean() > 3.0 * divergence[same].mean()
    again = DynamicsGap(2, 2, generator, (64,))
    again.load_state_dict(gap.state_dict())
    assert torch.equal(again.ratio(simulated), ratio)


def make(algorithm: str, seed: int = 0) -> Any:
    if algorithm == "h2o":
        settings = H2OSettings(**SMALL, warm_up=100, learned_first=20, classifier_hidden=(16,))
        return H2O(settings, Reaching(seed=seed))
    return RO2O(RO2OSettings(**SMALL, warm_up=0, pretraining=100), Reaching(seed=seed))


@pytest.mark.parametrize("algorithm", ["h2o", "ro2o"])
def test_it_goes_on_exactly(algorithm: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    open_demonstrations(Reaching(), tmp_path, 20).close()
    one = make(algorithm)
    one.open(tmp_path)
    for k in range(3):
        logged = one.iterate(k / 24).logged()
    if algorithm == "h2o":
        assert 0.0 < logged["loss/simulated_weight"] <= 1.0 and logged["loss/gap"] > 0.0
    state = one.state_dict()
    one._experience.close()
    one.replay.prior.close()
    other = make(algorithm, seed=5)
    other.load_state_dict(state)
    other.open(tmp_path)
    for name in ("actor", "critics"):
        torch.testing.assert_close(other.state_dict()["learner"][name], state["learner"][name])
    assert all(value == value for value in other.iterate(0.9).logged().values())


@pytest.mark.learning
@pytest.mark.parametrize("algorithm", ["h2o", "ro2o"])
def test_it_learns_from_both(algorithm: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    open_demonstrations(Reaching(), tmp_path, 20).close()
    one = make(algorithm)
    one.open(tmp_path)
    for k in range(24):
        one.iterate(k / 24)
    assert success(one) > 0.75


def test_without_a_recording_it_is_refused() -> None:
    with pytest.raises(UserError, match="give the folder of a dataset that was recorded on the robot"):
        H2O(H2OSettings(**{**SMALL, "dataset": ""}), Reaching())
