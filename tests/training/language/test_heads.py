"""Heads: losses that reach their targets, log-probabilities that are those of the samples, gradients to all weights."""

from __future__ import annotations

import math

import pytest
import torch

from rlstack.training.language.heads import FlowHead, Head, RegressionHead, TokenHead, make_head

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


@pytest.mark.parametrize("head", heads(), ids=lambda head: type(head).__name__)
def test_is_reinforced_by_rewards_alone(head: Head) -> None:
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
    assert head.log_prob(features, choice, 1.0)[1].mean() < noise - 0.1  # it also learns to explore less
