"""Policy-gradient updates in a process of their own."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.language.actor import LanguageActor, Layout, PolicySettings, Seen
from rlstack.training.language.network import NetworkSettings
from rlstack.training.language.overlap import OverlappedPolicyGradient
from rlstack.training.language.policy_gradient import PolicyGradient, PolicyGradientSettings

SMALL = NetworkSettings(channels=(4, 4), points=2, width=8, heads=2, layers=0, decoder_layers=1)
SETTINGS = PolicyGradientSettings(batch=8, kl=0.1, places=1.0, overlap=True)


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


@pytest.fixture
def overlapped() -> Iterator[OverlappedPolicyGradient]:
    one = OverlappedPolicyGradient(SETTINGS, policy(), torch.Generator().manual_seed(3))
    one.refer()
    yield one
    one.close()


def test_updates_are_those_of_one_process_one_iteration_later(overlapped: OverlappedPolicyGradient) -> None:
    begun = policy()
    seed = int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(3)))
    plain = PolicyGradient(SETTINGS, begun, torch.Generator().manual_seed(seed))
    plain.refer()
    first, second = (experience(begun, k) for k in (1, 2))
    assert overlapped.update(*first, 0.0) == {}
    torch.testing.assert_close(overlapped.policy.state_dict(), begun.state_dict())  # it still acts as before
    state = overlapped.state_dict()
    losses = plain.update(*first, 0.0)
    after_first = copy.deepcopy(begun.state_dict())
    assert overlapped.update(*second, 0.5).items() >= losses.items()
    torch.testing.assert_close(overlapped.policy.state_dict(), after_first)
    plain.update(*second, 0.5)
    torch.testing.assert_close(overlapped.state_dict()["twin"], begun.state_dict())

    resumed = OverlappedPolicyGradient(SETTINGS, policy(), torch.Generator())
    resumed.load_state_dict(state)  # without a process, until it has something to learn
    torch.testing.assert_close(resumed.state_dict(), state)
    torch.testing.assert_close(state["twin"], after_first)
    assert state["result"][1].items() >= losses.items()

    os.kill(overlapped._process.pid, signal.SIGKILL)
    with pytest.raises(UserError, match="exited unexpectedly \\(status -9\\)"):
        for share in (0.6, 0.7):  # what is sent just now may still find room in the pipe
            overlapped.update(*first, share)
