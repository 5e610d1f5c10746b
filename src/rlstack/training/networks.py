"""Small policy networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rlstack.training.algorithm import Actor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class Network(Actor):
    """Normalisation, dense layers, an optional gated recurrent unit, and the action.

    The recurrent unit is that of Cho et al. (arXiv 1406.1078) in PyTorch's form.

    Args:
        inputs: Observation columns.
        actions: Number of actions.
        hidden: Widths of the dense layers.
        gru_width: Width of the recurrent layer after them; 0: none.
        activation: Activation of the dense layers, one of :data:`ACTIVATIONS`.
        initial_action: The action of the untrained policy.
    """

    def __init__(
        self, inputs: int, actions: int, hidden: Sequence[int], gru_width: int, activation: str, initial_action: float
    ) -> None:
        super().__init__()
        self.activation, self.gru_width, self.folded = activation, gru_width, False
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        widths = [inputs, *hidden]
        self.layers = nn.ModuleList(_linear(a, b, math.sqrt(3.0)) for a, b in pairwise(widths))
        if gru_width:
            self.fed = _linear(widths[-1], 3 * gru_width, 1.0)
            self.back = _linear(gru_width, 3 * gru_width, 1.0)
            self.memory: Mapping[str, tuple[int, ...]] = {"hidden": (gru_width,)}
        self.last = _linear(gru_width or widths[-1], actions, 0.1)
        with torch.no_grad():
            self.last.bias.fill_(initial_action)

    mean: Tensor
    scale: Tensor

    def normalise_by(self, observations: Tensor) -> None:
        """Set the normalisation to mean and standard deviation of observations (samples, columns)."""
        self.mean.copy_(observations.mean(dim=0))
        spread = observations.std(dim=0, correction=min(len(observations) - 1, 1))  # a single sample has none
        self.scale.copy_(1.0 / spread.clamp(min=0.3))

    def fold(self) -> None:
        """Fold the normalisation into the first layer; the network's function stays the same."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        with torch.no_grad():
            first.weight.mul_(self.scale)
            first.bias.sub_(first.weight @ self.mean)
        self.mean.zero_()
        self.scale.fill_(1.0)
        self.folded = True

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the action (batch, actions) and the next hidden state (batch, gru_width)."""
        x = observation if self.folded else (observation - self.mean) * self.scale
        for layer in self.layers:
            x = ACTIVATIONS[self.activation](layer(x))
        if not self.gru_width:
            return self.last(x), {}
        hidden = memory["hidden"]
        fed, back = self.fed(x).chunk(3, dim=-1), self.back(hidden).chunk(3, dim=-1)
        reset, update = torch.sigmoid(fed[0] + back[0]), torch.sigmoid(fed[1] + back[1])
        new = torch.tanh(fed[2] + reset * back[2])
        hidden = new + update * (hidden - new)
        return self.last(hidden), {"hidden": hidden}


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    bound = gain / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer
