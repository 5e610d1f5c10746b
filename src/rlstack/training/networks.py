"""Policy networks: dense or recurrent, and with attention over a set of variable size, such as pedestrians."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.algorithm import Actor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}

_WIDE = math.sqrt(3.0)
"""Gain of a hidden layer's initial weights."""


def multiplies_halves(device: torch.device) -> bool:
    """Return whether bfloat16 is fast there: on a GPU, and on processors with instructions for it."""
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return device.type != "cpu" or bool(known and known())


class Normalised(nn.Module):
    """A module that normalises observations by their mean and standard deviation.

    Args:
        columns: Observation columns.
    """

    least_std: ClassVar[float] = 0.05
    """Smallest standard deviation to divide by: columns that hardly vary are mostly noise."""
    mean: Tensor
    scale: Tensor

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))

    def normalise_by(self, observations: Tensor) -> None:
        """Set the normalisation to mean and standard deviation of observations (samples, columns)."""
        self.mean.copy_(observations.mean(dim=0))
        spread = observations.std(dim=0, correction=min(len(observations) - 1, 1))  # a single sample has none
        self.scale.copy_(1.0 / spread.clamp(min=self.least_std))

    def normalised(self, observations: Tensor) -> Tensor:
        """Return normalised observations (..., columns)."""
        return (observations - self.mean) * self.scale


def relu_layers(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """Return the output of dense layers with a ReLU after each but the last."""
    *hidden, last = layers
    for layer in hidden:
        x = torch.relu(layer(x))
    result: Tensor = last(x)
    return result


class Network(Normalised, Actor):
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

    least_std = 0.3

    def __init__(
        self, inputs: int, actions: int, hidden: Sequence[int], gru_width: int, activation: str, initial_action: float
    ) -> None:
        super().__init__(inputs)
        self.activation, self.gru_width, self.folded = activation, gru_width, False
        widths = [inputs, *hidden]
        self.layers = nn.ModuleList(_linear(a, b, _WIDE) for a, b in pairwise(widths))
        if gru_width:
            self.fed = _linear(widths[-1], 3 * gru_width, 1.0)
            self.back = _linear(gru_width, 3 * gru_width, 1.0)
            self.memory: Mapping[str, tuple[int, ...]] = {"hidden": (gru_width,)}
        self.last = _linear(gru_width or widths[-1], actions, 0.1)
        with torch.no_grad():
            self.last.bias.fill_(initial_action)

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

    @torch.no_grad()
    def take_over(self, weights: Mapping[str, Tensor]) -> None:
        """Become the function of a folded network's weights, and keep one's own normalisation, which training needs."""
        own = {"mean": self.mean, "scale": self.scale}
        self.load_state_dict({**weights, **own})
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        first.bias.add_(first.weight @ self.mean)
        first.weight.div_(self.scale)

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the action (batch, actions) and the next hidden state (batch, gru_width)."""
        x = observation if self.folded else self.normalised(observation)
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


@dataclass(frozen=True)
class Members:
    """Columns of the set in the observation: ``count`` adjacent members of ``size`` columns each.

    The last column of a member is 1 if it is present and 0 if not; absent members are masked out.
    """

    start: int
    count: int
    size: int

    @property
    def stop(self) -> int:
        """The first column after it."""
        return self.start + self.count * self.size


def members_of(pipeline: Pipeline) -> Members:
    """Return the columns of the observation's one set: the term that has a ``member_size``.

    Raises:
        ValueError: The observation has no set, or more than one.
    """
    found = []
    for term, row in zip(pipeline.terms, pipeline.table()):
        if size := getattr(term, "member_size", 0):
            found.append(Members(row.start, row.size // size, size))
    if len(found) != 1:
        raise ValueError("network: 'attention' is for tasks whose observation has one set, such as people: use mlp.")
    return found[0]


class AttentionNetwork(Actor):
    """Shared layers for each member, an attention-weighted mean and a maximum over members, then dense layers.

    The weighted mean is self-attentive pooling (as in SARL, Chen et al., arXiv 1809.08835), the maximum is PointNet's;
    both are invariant to the order of members.

    Args:
        inputs: Observation columns.
        actions: Number of actions.
        members: Columns of the set.
        width: Width of the shared layers.
        hidden: Widths of the dense layers after them.
        gru_width: Width of the recurrent layer after those; 0: none.
        initial_action: The action of the untrained policy.
        action_scale: Factor on the last layer's output; less than 1 where commands are steep in actions near 0, to
            keep away from the bounds of actions.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        members: Members,
        width: int,
        hidden: Sequence[int],
        gru_width: int = 0,
        initial_action: float | Sequence[float] = 0.0,
        action_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.action_scale = action_scale
        self.members, self.gru_width = members, gru_width
        self.first, self.second = _linear(members.size, width, _WIDE), _linear(width, width, _WIDE)
        self.weigh = _linear(width, 1, _WIDE)
        rest = inputs - members.count * members.size
        widths = [2 * width + rest, *hidden]
        self.layers = nn.ModuleList(_linear(a, b, _WIDE) for a, b in zip(widths, hidden))
        if gru_width:
            self.cell = nn.GRUCell(widths[-1], gru_width)
            self.memory: Mapping[str, tuple[int, ...]] = {"hidden": (gru_width,)}
        self.last = _linear(gru_width or widths[-1], actions, 0.1)
        with torch.no_grad():
            self.last.bias.copy_(torch.as_tensor(initial_action).expand(actions) / action_scale)

    def normalise_by(self, observations: Tensor) -> None:
        """No-op: observations of an untrained robot do not represent those among pedestrians.

        Terms of tasks with a set are already of order one.
        """

    def fold(self) -> None:
        """No-op: there is no normalisation."""

    def take_over(self, weights: Mapping[str, Tensor]) -> None:
        """Take over the weights of such a network."""
        self.load_state_dict(dict(weights))

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the action (batch, actions) and the next hidden state (batch, gru_width)."""
        where = self.members
        rest = torch.cat([observation[:, : where.start], observation[:, where.stop :]], dim=-1)
        each = observation[:, where.start : where.stop].reshape(-1, where.count, where.size)
        there = each[..., -1:]
        each = torch.relu(self.second(torch.relu(self.first(each)))) * there
        weight = torch.softmax(self.weigh(each) - 30.0 * (1.0 - there), dim=1)
        x = torch.cat([(weight * each).sum(dim=1), each.amax(dim=1), rest], dim=-1)
        for layer in self.layers:
            x = torch.relu(layer(x))
        if not self.gru_width:
            return self.action_scale * self.last(x), {}
        hidden = self.cell(x, memory["hidden"])
        return self.action_scale * self.last(hidden), {"hidden": hidden}


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    bound = gain / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer
