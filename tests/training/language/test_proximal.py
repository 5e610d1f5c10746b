"""PPO over chunks: what an update adds to its clipped objective, and how advantages are centred."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlstack.training.language import proximal as module
from rlstack.training.language.actor import LanguageActor
from rlstack.training.language.policy_gradient import PolicyGradient, PolicyGradientSettings
from rlstack.training.language.proximal import Proximal, ProximalSettings
from tests.training.language.test_overlap import experience, policy


def test_an_anchor_is_added_to_each_update() -> None:
    one = policy()
    chunks, advantage = experience(one, 0)
    learner = PolicyGradient(PolicyGradientSettings(batch=8, epochs=1), one, torch.Generator().manual_seed(0))
    asked: list[float] = []

    def anchor() -> torch.Tensor:
        loss = one.head.log_prob(one.features(chunks["seen"]), chunks["choice"], 1.0)[0].mean().neg()
        asked.append(loss.item())
        return loss

    learner.anchor = anchor
    losses = [learner.update(chunks, 0.0 * advantage, 0.0)["anchor"] for _ in range(4)]
    assert len(asked) == 8 and losses[-1] < losses[0], "without advantages, the anchor alone is learned"


def test_where_things_are_is_learned_from_trials_that_teach_nothing_else() -> None:
    one = policy()
    chunks, advantage = experience(one, 0)
    settings = PolicyGradientSettings(batch=16, epochs=1, places=0.3, learning_rate=1e-3)
    learner = PolicyGradient(settings, one, torch.Generator().manual_seed(0))
    losses = [learner.update(chunks, 0.0 * advantage, 0.0)["places"] for _ in range(60)]
    assert losses[-1] < 0.2 * losses[0]


def test_fixed_eyes_see_the_same_after_an_update_and_their_policy_learns() -> None:
    one = policy()
    chunks, advantage = experience(one, 0)
    with torch.no_grad():
        before = one.features(chunks["seen"])
        one.fix_eyes()
        seen = one.sighted(chunks["seen"])
        torch.testing.assert_close(one.features(seen), before)
    learner = PolicyGradient(PolicyGradientSettings(batch=8), one, torch.Generator().manual_seed(0))
    learner.update({**chunks, "seen": seen}, advantage, 0.0)
    assert torch.equal(one.sighted(chunks["seen"]).images, seen.images)
    assert (one.features(seen) - before).abs().max() > 1e-4


@pytest.mark.parametrize("apart", [False, True])
def test_advantages_of_robots_with_tasks_of_their_own_are_centred_apart(
    monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    one: LanguageActor = policy()
    gain = torch.tensor([[0.0, 10.0], [1.0, 11.0]])  # of the second robot's task the critic expects too little
    experience_: Any = SimpleNamespace(flat=lambda: {}, privileged=torch.zeros(2, 2, 3))
    rollouts: Any = SimpleNamespace(collect=lambda steps, told_error: experience_)
    given: list[torch.Tensor] = []
    built = Proximal(ProximalSettings(warm_up=0), rollouts, one, 3, torch.Generator(), apart=apart)
    monkeypatch.setattr(built, "_judge", lambda chunks: (gain, 0.0))

    def update(chunks: Any, advantage: torch.Tensor, share: float) -> dict[str, float]:
        given.append(advantage)
        return {}

    monkeypatch.setattr(built.learner, "update", update)
    monkeypatch.setattr(module, "totals", lambda chunks: {})
    built.iterate(0.0)
    found = given[0].reshape(2, 2)
    assert found.mean().abs() < 1e-6
    assert (found[:, 0].sum().abs() < 1e-6) == apart and (found[0] < found[1]).all()
