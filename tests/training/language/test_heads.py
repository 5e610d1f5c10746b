"""Heads: losses that reach their targets, log-probabilities that are those of the samples, gradients to all weights."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.training.language.flow import Flow, FlowHead
from rlstack.training.language.head import Exploration, Head
from rlstack.training.language.heads import RegressionHead, TokenHead, make_head

WIDTH, AXES = 8, 2


def heads() -> list[Head]:
    torch.manual_seed(0)
    return [make_head(name, WIDTH, AXES, 9) for name in ("tokens", "flow", "regression")]


@pytest.mark.parametrize("head", heads(), ids=lambda head: type(head).__name__)
def test_learns_actions_that_depend_on_features(head: Head) -> None:
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(64, 3, WIDTH, generator=draw)
    wanted = 0.3 * features[..., :AXES].clamp(-2.5, 2.5)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.02)
    for _ in range(300):
        optimiser.zero_grad()
        head.loss(features, wanted, draw).mean().backward()
        optimiser.step()
    made = head(features)
    assert made.shape == (64, 3, AXES)
    assert (made - wanted).abs().mean() < 0.15
    sampled, _ = head.sample(features, 0.3, draw)
    assert (sampled - wanted).abs().mean() < 0.3


def test_token_log_probabilities_are_those_of_samples() -> None:
    head = TokenHead(WIDTH, 1, 5)
    features = torch.randn(1, 1, WIDTH, generator=torch.Generator().manual_seed(0))
    many = features.expand(20_000, 1, WIDTH)
    for temperature in (1.0, 2.0):
        action, choice = head.sample(many, temperature, torch.Generator().manual_seed(0))
        counted = torch.bincount(choice.flatten(), minlength=5) / len(many)
        log_prob, entropy = head.log_prob(features.expand(5, 1, WIDTH), torch.arange(5).reshape(5, 1, 1), temperature)
        torch.testing.assert_close(log_prob.exp().flatten(), counted, atol=0.015, rtol=0.0)
        expected = -(log_prob.exp() * log_prob).sum()
        torch.testing.assert_close(entropy[0, 0, 0], expected)
        torch.testing.assert_close(action, -1.0 + 0.5 * choice.float())


def test_tokens_between_two_bins_are_shared() -> None:
    head = TokenHead(WIDTH, 1, 5)
    features = torch.zeros(1, 1, WIDTH)
    with torch.no_grad():
        head.logits.bias.copy_(torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]))
    log = torch.log_softmax(head.logits.bias, dim=0)
    between = head.loss(features, torch.tensor([[[0.125]]]))
    torch.testing.assert_close(between, -(0.75 * log[2] + 0.25 * log[3]).reshape(1, 1))
    torch.testing.assert_close(head.loss(features, torch.tensor([[[1.0]]])), -log[4].reshape(1, 1))
    assert head(features).item() == 1.0


@pytest.mark.parametrize("head", heads(), ids=lambda head: type(head).__name__)
def test_divergence_from_itself_is_zero_and_positive_from_another(head: Head) -> None:
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(4, 3, WIDTH, generator=draw)
    _, choice = head.sample(features, 1.0, draw)
    reference = head.distribution(features, choice).detach()
    torch.testing.assert_close(head.divergence(features, reference, choice), torch.zeros(4, 3, AXES))
    assert (head.divergence(features + 1.0, reference, choice).mean()) > 0.0


def test_flow_chain_has_the_log_probability_of_its_noise() -> None:
    head = FlowHead(WIDTH, 1)
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(500, 1, WIDTH, generator=draw)
    _, chain = head.sample(features, 1.0, draw)
    log_prob, entropy = head.log_prob(features, chain, 1.0)
    assert chain.shape == (500, 1, 1, 7)
    # the mean of a Gaussian's log-probability over its own samples is minus its entropy
    assert log_prob.mean().item() == pytest.approx(-entropy.mean().item(), abs=0.2)
    assert head.log_prob(features, chain + torch.linspace(0.0, 1.0, 7), 1.0)[0].mean() < log_prob.mean()


class Bell(Flow):
    """The flow to a Gaussian, by its exact velocity."""

    mean, std = 0.7, 0.4

    def still(self, features: Tensor) -> Tensor:
        return torch.zeros_like(features)

    def spread(self, features: Tensor) -> Tensor:
        return torch.zeros_like(features)

    def velocity_at(self, features: Tensor, now: Tensor, time: Tensor) -> Tensor:
        slope = time * self.std**2 - (1.0 - time)
        return self.mean + slope / ((time * self.std) ** 2 + (1.0 - time) ** 2) * (now - time * self.mean)


def test_sde_has_the_distribution_of_the_flow_at_each_time() -> None:
    head, draw = Bell(1, flow_steps=100), torch.Generator().manual_seed(0)
    features = torch.zeros(20_000, 1, 1)
    ends = head(features, torch.randn(features.shape, generator=draw))
    assert ends.mean().item() == pytest.approx(head.mean, abs=0.01)
    assert ends.std().item() == pytest.approx(head.std, rel=0.03)
    for exploration in get_args(Exploration)[1:]:
        head.explore_by(exploration)
        made, chain = head.sample(features, 2.0, draw)  # as much noise as the flow itself begins with
        assert made.mean().item() == pytest.approx(ends.mean().item(), abs=0.015)
        assert made.std().item() == pytest.approx(ends.std().item(), rel=0.05)
        if exploration == "sde":
            for time in (0.25, 0.5, 0.75):
                now = chain[..., int(time * 100)]
                assert now.mean().item() == pytest.approx(time * head.mean, abs=0.02)
                assert now.std().item() == pytest.approx(math.hypot(time * head.std, 1.0 - time), rel=0.04)


@pytest.mark.parametrize("exploration", get_args(Exploration))
def test_flow_without_noise_is_the_deterministic_one(exploration: Exploration) -> None:
    head, draw = FlowHead(WIDTH, AXES), torch.Generator().manual_seed(0)
    head.explore_by(exploration)
    features = torch.randn(4, 3, WIDTH, generator=draw)
    made, _ = head.sample(features, 0.0, torch.Generator().manual_seed(1))
    noise = torch.randn(4, 3, AXES, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(made, head(features, noise))


@pytest.mark.parametrize("exploration", get_args(Exploration))
def test_flow_has_the_log_probability_of_its_chain(exploration: Exploration) -> None:
    head, draw = FlowHead(WIDTH, AXES), torch.Generator().manual_seed(0)
    head.explore_by(exploration)
    features = torch.randn(5, 3, WIDTH, generator=draw)
    _, chain = head.sample(features, 1.7, draw)
    found, entropy = head.log_prob(features, chain, 1.7)
    expected, spread = torch.zeros(5, 3, AXES), torch.zeros(5, 3, AXES)
    for robot, points in enumerate(chain):
        steps = [(k, points[..., k], points[..., k + 1]) for k in range(points.shape[-1] - 1)]
        if exploration == "sde_step":
            steps = [(int(points[0, 0, 2]), points[..., 0], points[..., 1])]
        for k, now, after in steps:
            time, own = torch.full((1, 1, 1), k / 6), features[robot : robot + 1]
            velocity = head.velocity_at(own, now[None], time)[0]
            mean, std = now + velocity / 6, torch.tensor(0.12 * 1.7)
            if exploration != "noise":
                rate = 0.5 * 1.7 * ((1 - k / 6) / max(k / 6, 1 / 6)) ** 0.5
                score = -(now - k / 6 * velocity) / (1 - k / 6)
                mean, std = mean + 0.5 * rate**2 * score / 6, torch.tensor(rate * (1 / 6) ** 0.5)
            each = torch.distributions.Normal(mean, std)
            expected[robot] += each.log_prob(after)
            spread[robot] += each.entropy()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(entropy, spread, atol=1e-5, rtol=1e-5)
    reference = head.distribution(features, chain)
    torch.testing.assert_close(head.divergence(features, reference, chain), torch.zeros(5, 3, AXES))
    assert head.divergence(features + 1.0, reference, chain).mean() > 0.0


def test_only_flows_are_sampled_in_several_ways() -> None:
    for head in heads():
        head.explore_by("noise")
    for name in ("tokens", "regression"):
        with pytest.raises(UserError, match="exploration: sde is not allowed with a head that is no flow"):
            make_head(name, WIDTH, AXES, 9).explore_by("sde")


def test_flow_is_deterministic_in_its_noise() -> None:
    head = FlowHead(WIDTH, AXES)
    features = torch.randn(4, 3, WIDTH, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(head(features), head(features, torch.zeros(4, 3, AXES)))
    noise = torch.ones(4, 3, AXES)
    torch.testing.assert_close(head(features, noise), head(features, noise))
    assert not torch.allclose(head(features), head(features, noise))


def test_regression_samples_have_the_deviation() -> None:
    head = RegressionHead(WIDTH, 1, std=0.2)
    features = torch.zeros(5000, 1, WIDTH)
    sampled, choice = head.sample(features, 1.5, torch.Generator().manual_seed(0))
    assert sampled.std().item() == pytest.approx(0.3, rel=0.05)
    log_prob, entropy = head.log_prob(features, choice, 1.5)
    assert entropy.mean().item() == pytest.approx(math.log(0.3) + 0.5 * math.log(2.0 * math.pi * math.e), abs=1e-5)
    assert log_prob.mean().item() == pytest.approx(-entropy.mean().item(), abs=0.05)


def test_regression_samples_go_together_within_a_chunk_and_have_their_log_probability() -> None:
    head = RegressionHead(WIDTH, 1, 0.2)
    features = torch.zeros(20_000, 4, WIDTH)
    action, choice = head.sample(features, 1.5, torch.Generator().manual_seed(0))
    apart = (action - head(features))[..., 0].detach()
    covariance = (0.2 * 1.5) ** 2 * (0.2 * torch.eye(4) + 0.8)
    torch.testing.assert_close(torch.cov(apart.T), covariance, atol=2e-3, rtol=0.0)
    expected = torch.distributions.MultivariateNormal(torch.zeros(4), covariance).log_prob(apart)
    log_prob, entropy = head.log_prob(features, choice, 1.5)
    torch.testing.assert_close(log_prob.sum(dim=(1, 2)), expected)
    assert entropy[0].sum().item() == pytest.approx(-expected.mean().item(), abs=0.05)


@pytest.mark.parametrize(
    ("head", "exploration"),
    [*((head, "noise") for head in heads()), (heads()[1], "sde"), (heads()[1], "sde_step")],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_is_reinforced_by_rewards_alone(head: Head, exploration: Exploration) -> None:
    head.explore_by(exploration)
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(256, 1, WIDTH, generator=draw)
    wanted = 0.3 + 0.2 * features[..., :AXES].clamp(-1.0, 1.0)

    def wrong() -> float:
        with torch.no_grad():
            return (head(features) - wanted).abs().mean().item()

    optimiser = torch.optim.Adam(head.parameters(), lr=0.01)
    for _ in range(100):
        optimiser.zero_grad()
        head.loss(features, torch.zeros(256, 1, AXES), draw).mean().backward()
        optimiser.step()
    before, noise = wrong(), head.log_prob(features, head.sample(features, 1.0, draw)[1], 1.0)[1].mean().item()
    for _ in range(150):
        with torch.no_grad():
            made, choice = head.sample(features, 1.0, draw)
            reward = -(made - wanted).square()
            gain = (reward - reward.mean()) / reward.std()
        optimiser.zero_grad()
        (-gain * head.log_prob(features, choice, 1.0)[0]).mean().backward()
        optimiser.step()
    assert wrong() < 0.7 * before
    if exploration == "noise":
        assert head.log_prob(features, choice, 1.0)[1].mean() < noise - 0.1, "it explores less"
