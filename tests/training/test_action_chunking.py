"""Chunks of actions: what is carried out is what their definition says, and the memory holds all that it takes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.training.action_chunking import ChunkActor


def carried_out(actor: ChunkActor, seen: torch.Tensor) -> torch.Tensor:
    memory = {name: torch.zeros(seen.shape[1], *shape) for name, shape in actor.memory.items()}
    actions = []
    for observation in seen:
        action, memory = actor(observation, memory)
        assert {name: tensor.shape[1:] for name, tensor in memory.items()} == actor.memory
        actions.append(action)
    return torch.stack(actions)


@settings(deadline=None, max_examples=25)
@given(chunk=st.integers(1, 6), history=st.integers(1, 3), decay=st.floats(0.0, 1.0), seed=st.integers(0, 99))
def test_blended_chunks_are_the_weighted_mean_of_all_that_speak_of_now(
    chunk: int, history: int, decay: float, seed: int
) -> None:
    torch.manual_seed(seed)
    actor = ChunkActor(3, 2, (8,), chunk, 0, decay, history)
    actor.normalise_by(torch.randn(50, 3))
    seen = torch.randn(9, 4, 3)
    with torch.no_grad():
        actions = carried_out(actor, seen)
        padded = torch.cat([seen[:1].expand(history - 1, 4, 3), seen])
        plans = [actor.plan(padded[t : t + history].transpose(0, 1)) for t in range(9)]
    for t in range(9):
        made = range(max(0, t - chunk + 1), t + 1)
        weights = [math.exp(decay * (t - s)) for s in made]
        said = torch.stack([w * plans[s][:, t - s] for w, s in zip(weights, made)])
        expected = said.sum(dim=0) / sum(weights)
        assert torch.allclose(actions[t], expected, atol=1e-5)


@pytest.mark.parametrize("executed", [1, 2, 3])
def test_a_chunk_is_carried_out_before_there_is_a_new_one(executed: int) -> None:
    torch.manual_seed(0)
    actor = ChunkActor(3, 2, (8,), 3, executed)
    seen = torch.randn(8, 5, 3)
    with torch.no_grad():
        actions = carried_out(actor, seen)
        for t in range(8):
            made = t - t % executed
            assert torch.allclose(actions[t], actor.plan(seen[made][:, None])[:, t - made], atol=1e-6)
    assert bool(actor.memory) == (executed > 1)
