"""A policy that plans a chunk of actions ahead; what it planned before is its memory, in the policy file too.

Chunks, and how they are blended, are those of Zhao et al., "Learning Fine-Grained Bimanual Manipulation with Low-Cost
Hardware" (ACT, arXiv 2304.13705): of what chunks of earlier steps say of now, the oldest counts most. Their network is
a transformer for camera images; here a state of some 25 numbers goes through dense layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rlstack.training.algorithm import Actor


class ChunkActor(Actor):
    """Normalisation, dense layers, and a chunk of actions, of which the present one is carried out.

    Args:
        inputs: Observation columns.
        actions: Number of actions.
        hidden: Widths of the layers.
        chunk: Actions that are planned: the present one and those after it.
        executed: How many of a chunk are carried out before there is a new one; 0: each step has a new one, and the
            action is the mean of what all chunks up to now say of it.
        decay: With that, a chunk that is one step older weighs exp(decay) times as much.
        history: Observations that the plan is made from, the present one included.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hidden: Sequence[int],
        chunk: int = 1,
        executed: int = 0,
        decay: float = 0.01,
        history: int = 1,
    ) -> None:
        super().__init__()
        self.inputs, self.actions, self.chunk, self.history = inputs, actions, chunk, history
        self.executed = min(executed, chunk)
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.register_buffer("weight", torch.exp(decay * torch.arange(chunk)))
        widths = [inputs * history, *hidden, chunk * actions]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        memory: dict[str, tuple[int, ...]] = {}
        if history > 1:
            memory |= {"seen": (history - 1, inputs), "begun": (1,)}
        ahead = self.executed - 1 if self.executed else chunk - 1
        if ahead:
            memory |= {"ahead": (ahead, actions)}
            memory |= {"left": (1,)} if self.executed else {"weight": (ahead,)}
        self.memory = memory

    mean: Tensor
    scale: Tensor
    weight: Tensor

    def normalise_by(self, observations: Tensor) -> None:
        """Take mean and spread of observations (samples, columns) as the normalisation from now on."""
        self.mean.copy_(observations.mean(dim=0))
        # what hardly varies must not be blown up: below this it is mostly noise
        self.scale.copy_(1.0 / observations.std(dim=0, correction=min(len(observations) - 1, 1)).clamp(min=0.05))

    def plan(self, observations: Tensor) -> Tensor:
        """Return chunks (batch, chunk, actions) for observations (batch, history, columns), the oldest first."""
        x = ((observations - self.mean) * self.scale).flatten(start_dim=1)
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        planned: Tensor = last(x)
        return planned.reshape(-1, self.chunk, self.actions)

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the present action (batch, actions) and the memory after it."""
        seen, after = observation[:, None], {}
        if self.history > 1:
            begun = memory["begun"][:, :, None]
            before = begun * memory["seen"] + (1.0 - begun) * seen  # at the start, as if it had always been so
            seen = torch.cat([before, seen], dim=1)
            after = {"seen": seen[:, 1:], "begun": torch.ones_like(memory["begun"])}
        planned = self.plan(seen)
        if "ahead" not in self.memory:
            return planned[:, 0], after
        ahead = torch.cat([memory["ahead"], torch.zeros_like(planned[:, :1])], dim=1)
        if self.executed:
            left = memory["left"]
            over = (left < 0.5).float()
            chosen = over[:, :, None] * planned[:, : self.executed] + (1.0 - over)[:, :, None] * ahead
            left = over * (self.executed - 1) + (1.0 - over) * (left - 1.0)
            return chosen[:, 0], {**after, "ahead": chosen[:, 1:], "left": left}
        # sums over all chunks of weight and of weighted action, for now and each step after it
        none = torch.zeros_like(memory["weight"][:, :1])
        weight = torch.cat([memory["weight"], none], dim=1) + self.weight
        total = ahead + self.weight[:, None] * planned
        return total[:, 0] / weight[:, :1], {**after, "ahead": total[:, 1:], "weight": weight[:, 1:]}
