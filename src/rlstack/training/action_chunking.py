"""Action-chunking policy: plans a chunk of actions; earlier plans are its memory, also in the policy file.

Chunks and their temporal ensembling follow Zhao et al., "Learning Fine-Grained Bimanual Manipulation with Low-Cost
Hardware" (ACT, arXiv 2304.13705): among the predictions for the present step, the oldest has the largest weight. Their
network is a transformer for camera images; here a state of some 25 values goes through dense layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rlstack.training.algorithm import Actor
from rlstack.training.networks import Normalised, relu_layers


class ChunkActor(Normalised, Actor):
    """Normalisation, dense layers, and a chunk of actions, of which the present one is executed.

    Args:
        inputs: Observation columns.
        actions: Number of actions.
        hidden: Widths of the layers.
        chunk: Number of planned actions, from the present one on.
        executed: Actions executed before the next plan; 0: plan at each step and average all predictions for the
            present step.
        decay: In that average, a chunk that is one step older weighs exp(decay) times as much.
        history: Number of observations as input, including the present one.
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
        super().__init__(inputs)
        self.inputs, self.actions, self.chunk, self.history = inputs, actions, chunk, history
        self.executed = min(executed, chunk)
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

    weight: Tensor

    def plan(self, observations: Tensor) -> Tensor:
        """Return chunks (batch, chunk, actions) for observations (batch, history, columns), oldest first."""
        planned = relu_layers(self.layers, self.normalised(observations).flatten(start_dim=1))
        return planned.reshape(-1, self.chunk, self.actions)

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the present action (batch, actions) and the memory after it."""
        seen, after = observation[:, None], {}
        if self.history > 1:
            begun = memory["begun"][:, :, None]
            before = begun * memory["seen"] + (1.0 - begun) * seen  # at first, all of the first one
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
        # sums over all chunks of weight and of weighted action, for the present and each later step
        none = torch.zeros_like(memory["weight"][:, :1])
        weight = torch.cat([memory["weight"], none], dim=1) + self.weight
        total = ahead + self.weight[:, None] * planned
        return total[:, 0] / weight[:, :1], {**after, "ahead": total[:, 1:], "weight": weight[:, 1:]}
