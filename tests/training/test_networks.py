"""Policy networks: normalisation, where they begin, and what folding leaves as it was."""

from __future__ import annotations

import pytest
import torch

from rlstack.training.networks import Network


@pytest.mark.parametrize(("hidden", "width"), [((12, 10), 0), ((9,), 6)], ids=["mlp", "gru"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_folding_the_normalisation_into_the_weights_changes_nothing(
    hidden: tuple[int, ...], width: int, activation: str
) -> None:
    network = Network(7, 4, hidden, width, activation, 0.1)
    network.normalise_by(torch.randn(50, 7) * 3.0 + 1.0)
    seen = torch.randn(20, network.mean.shape[0])
    memory = {name: torch.rand(20, *shape) for name, shape in network.memory.items()}
    action, after = network(seen, memory)
    network.fold()
    assert (network.mean == 0.0).all() and (network.scale == 1.0).all()
    folded, folded_after = network(seen, memory)
    torch.testing.assert_close(folded, action, rtol=1e-4, atol=1e-5)
    assert after.keys() == folded_after.keys() == network.memory.keys()
    for name in after:
        torch.testing.assert_close(folded_after[name], after[name], rtol=1e-4, atol=1e-5)


def test_the_first_action_is_the_initial_one_wherever_it_is() -> None:
    network = Network(10, 4, (16,), 0, "tanh", 0.334)
    action, _ = network(torch.zeros(3, 10), {})
    torch.testing.assert_close(action, torch.full((3, 4), 0.334))
    spread, _ = network(torch.randn(200, 10), {})
    assert (spread - 0.334).abs().max() < 0.3


def test_normalisation_has_mean_and_spread_of_what_was_seen_but_does_not_magnify_what_hardly_varies() -> None:
    network = Network(3, 4, (8,), 0, "tanh", 0.0)
    seen = torch.randn(5000, 3) * torch.tensor([2.0, 1e-4, 0.0]) + torch.tensor([5.0, -1.0, 3.0])
    network.normalise_by(seen)
    torch.testing.assert_close(network.mean, torch.tensor([5.0, -1.0, 3.0]), atol=0.1, rtol=0)
    scaled = (seen - network.mean) * network.scale
    assert float(scaled[:, 0].std()) == pytest.approx(1.0, rel=0.01)
    assert float(scaled[:, 1:].abs().max()) < 0.01


def test_a_single_sample_has_no_spread() -> None:
    network = Network(2, 4, (8,), 0, "tanh", 0.0)
    network.normalise_by(torch.tensor([[1.0, 2.0]]))
    torch.testing.assert_close(network.scale, torch.full((2,), 1.0 / 0.3))
