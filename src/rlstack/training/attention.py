"""Policy network with attention over a set of variable size, such as pedestrians."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.algorithm import Actor


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
        self.first, self.second = _linear(members.size, width), _linear(width, width)
        self.weigh = _linear(width, 1)
        rest = inputs - members.count * members.size
        widths = [2 * width + rest, *hidden]
        self.layers = nn.ModuleList(_linear(a, b) for a, b in zip(widths, hidden))
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


def _linear(inputs: int, outputs: int, gain: float = math.sqrt(3.0)) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    bound = gain / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer
