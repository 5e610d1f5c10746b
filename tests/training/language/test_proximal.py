"""PPO over chunks: what an update adds to its clipped objective, and how advantages are centred."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlstack.training.language import proximal as module
from rlstack.training.language.actor import LanguageActor, Layout, PolicySettings, Seen
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.language.policy_gradient import PolicyGradient, PolicyGradientSettings
from rlstack.training.language.proximal import Proximal, ProximalSettings

SMALL = NetworkSettings(channels=(4, 4), points=2, width=8, heads=2, layers=0, decoder_layers=1)


def policy() -> LanguageActor:
    torch.manual_seed(0)
    return LanguageActor(Layout(5, (1, 16, 16, 3), 32), ("push", "red"), 2, PolicySettings(network=SMALL, chunk=3))


def experience(one: LanguageActor, seed: int) -> tuple[dict[str, Any], torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (16, 1, 16, 16, 3), generator=draw).to(torch.uint8)
    seen = Seen(torch.randn(16, 5, generator=draw), torch.zeros(16, 16).index_fill(1, torch.tensor([0]), 2.0), images)
    with torch.no_grad():
        features = one.features(seen)
        _, choice = one.head.sample(features, 1.0, draw)
        log_prob, _ = one.head.log_prob(features, choice, 1.0)
    places = 2.0 * torch.rand(16, 1, 1, 2, generator=draw) - 1.0
    chunks = {"seen": seen, "places": places, "choice": choice, "log_prob": log_prob, "inside": torch.ones(16, 3)}
    return chunks, torch.randn(16, generator=draw)


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


def test_a_learner_that_was_restored_goes_on_as_if_it_had_not_stopped() -> None:
    settings = PolicyGradientSettings(batch=8, kl=0.1, places=1.0)
    learner = PolicyGradient(settings, policy(), torch.Generator().manual_seed(1))
    learner.refer()
    first, second = (experience(learner.policy, seed) for seed in (0, 1))
    learner.update(*first, 0.0)
    resumed = PolicyGradient(settings, policy(), torch.Generator())
    resumed.policy.load_state_dict(learner.policy.state_dict())
    resumed.load_state_dict(learner.state_dict())
    resumed.generator.set_state(learner.generator.get_state())
    losses = learner.update(*second, 0.5)
    assert resumed.update(*second, 0.5) == losses and losses["from_reference"] > 0.0
    torch.testing.assert_close(resumed.policy.state_dict(), learner.policy.state_dict(), rtol=0.0, atol=0.0)


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
