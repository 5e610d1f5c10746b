"""An ensemble of critics, as one batch of matrix products with derivatives of its own.

A critic's layers are small, so that half of an update's time is what autograd and Python do about each operation. Here
both passes are written out, with the same operations in the same order: values and gradients are those of autograd to
the bit. What is learned is a loss on values: whoever states it says its slopes by the values, see :data:`Judge`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

Judge = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Maps the values (critics, batch) of all critics to a loss () and its slopes (critics, batch) by them."""

_EPSILON = 1e-5
"""Of layer normalisation, as torch's."""
_TOGETHER = 1024
"""Largest number of rows that pass together: more leave too much for a processor's cache to the reverse pass."""


class _Layer(NamedTuple):
    """A layer of all critics; (critics, inputs, outputs) and, for the rest, (critics, 1, outputs)."""

    weight: Tensor
    bias: Tensor
    gain: Tensor | None
    shift: Tensor | None


class _Passed(NamedTuple):
    """What the reverse pass needs of a hidden layer: (critics, batch, width) each, and statistics of its rows."""

    before: Tensor
    """Before normalisation; without it, empty."""
    normalised: Tensor
    mean: Tensor
    scale: Tensor
    after: Tensor
    """After the rectifier."""


class Critics(nn.Module):
    """An ensemble of critics: dense layers, layer normalisation if wanted, and rectifiers.

    Args:
        inputs: Columns of observation and action together.
        hidden: Widths of the layers.
        count: Number of critics.
        normalised: Whether hidden layers have layer normalisation.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], count: int, normalised: bool) -> None:
        super().__init__()
        self.count, self.normalised = count, normalised
        widths = [inputs, *hidden, 1]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for a, b in pairwise(widths):
            bound = 1.0 / math.sqrt(a)  # as torch initialises linear layers
            self.weights.append(nn.Parameter(torch.empty(count, a, b).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.empty(count, 1, b).uniform_(-bound, bound)))
        shapes = [(count, 1, width) for width in hidden] if normalised else []
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(shape)) for shape in shapes)
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self._arrays: list[Tensor] = []

    def forward(self, observation: Tensor, action: Tensor, members: Tensor | None = None) -> Tensor:
        """Return values (members, batch) of all critics, or of those at the indices ``members``."""
        arrays = self.arrays()
        if members is not None:
            arrays = [array[members] for array in arrays]
        return _forward(torch.cat([observation, action], dim=-1), _layers(self.normalised, arrays))[0]

    @torch.no_grad()
    def slopes(self, observation: Tensor, action: Tensor, least: bool) -> tuple[Tensor, Tensor]:
        """Return a value (batch,) of actions, and its gradient (batch, actions) by them.

        Args:
            observation: (batch, columns).
            action: (batch, actions).
            least: Whether it is the least value of all critics, else their mean.
        """
        x, layers = torch.cat([observation, action], dim=-1), _layers(self.normalised, self.arrays())
        values, passed = _forward(x, layers)
        value = values.amin(dim=0) if least else values.mean(dim=0)
        share = (values == value).float() if least else torch.ones_like(values)
        by_input, _ = _backward(x, layers, passed, share / share.sum(dim=0), True, False)
        assert by_input is not None
        return value, by_input[:, observation.shape[1] :]

    @torch.no_grad()
    def learn(self, observation: Tensor, action: Tensor, judge: Judge) -> tuple[Tensor, Tensor]:
        """Set the parameters' gradients of a loss; return it and the values (critics, batch) that it is of.

        Args:
            observation: (batch, columns).
            action: (batch, actions).
            judge: The loss.
        """
        parts, arrays = torch.cat([observation, action], dim=-1).split(_TOGETHER), self.arrays()
        layers = _layers(self.normalised, arrays)
        forward = [_forward(part, layers) for part in parts]
        values = torch.cat([found for found, _ in forward], dim=1) if len(parts) > 1 else forward[0][0]
        loss, slopes = judge(values)
        for k, (part, some) in enumerate(zip(parts, slopes.split(_TOGETHER, dim=1))):
            _, gradients = _backward(part, layers, forward[k][1], some, False, True)
            for array, gradient in zip(arrays, gradients):
                if k == 0:
                    array.grad = gradient
                elif array.grad is not None and gradient is not None:
                    array.grad += gradient
        return loss, values

    def arrays(self) -> list[Tensor]:
        """Return the parameters: weights, biases and, if normalised, gains and shifts, of all layers each."""
        if not self._arrays or self._arrays[0] is not self.weights[0]:
            self._arrays = [*self.weights, *self.biases, *self.gains, *self.shifts]
        return self._arrays


def _layers(normalised: bool, arrays: Sequence[Tensor]) -> list[_Layer]:
    """Return the layers of arrays in the order of :meth:`Critics.arrays`."""
    count = (len(arrays) + 2) // 4 if normalised else len(arrays) // 2
    weights, biases, rest = arrays[:count], arrays[count : 2 * count], arrays[2 * count :]
    gains, shifts = (rest[: count - 1], rest[count - 1 :]) if normalised else ([None] * count, [None] * count)
    return [_Layer(*one) for one in zip(weights, biases, [*gains, None], [*shifts, None])]


def _forward(x: Tensor, layers: Sequence[_Layer]) -> tuple[Tensor, list[_Passed]]:
    passed = []
    x = x.expand(len(layers[0].weight), *x.shape)
    for layer in layers[:-1]:
        before = torch.baddbmm(layer.bias, x, layer.weight)
        if layer.gain is None or layer.shift is None:
            x = before.relu_()
            none = x.new_empty(0)
            passed.append(_Passed(none, none, none, none, x))
            continue
        normalised, mean, scale = torch.native_layer_norm(before, before.shape[-1:], None, None, _EPSILON)
        x = (normalised * layer.gain).add_(layer.shift).relu_()
        passed.append(_Passed(before, normalised, mean, scale, x))
    return torch.baddbmm(layers[-1].bias, x, layers[-1].weight).squeeze(-1), passed


def _backward(
    x: Tensor, layers: Sequence[_Layer], passed: Sequence[_Passed], gradient: Tensor, by_input: bool, by_arrays: bool
) -> tuple[Tensor | None, list[Tensor | None]]:
    """Return the gradients by the input and by all arrays, in their order; those not wanted are None."""
    of: dict[str, list[Tensor | None]] = {name: [None] * len(layers) for name in _Layer._fields}
    g = gradient.unsqueeze(-1)
    for k in reversed(range(len(layers))):
        below = passed[k - 1].after if k else x.expand(len(g), *x.shape)
        if by_arrays:
            of["weight"][k] = torch.bmm(below.transpose(1, 2), g)
            of["bias"][k] = g.sum(dim=1, keepdim=True)
        if not k:
            break
        layer, was = layers[k - 1], passed[k - 1]
        g = torch.bmm(g, layers[k].weight.transpose(1, 2))
        g = torch.ops.aten.threshold_backward(g, was.after, 0)
        if layer.gain is not None:
            if by_arrays:
                of["gain"][k - 1] = (g * was.normalised).sum(dim=1, keepdim=True)
                of["shift"][k - 1] = g.sum(dim=1, keepdim=True)
            g = torch.ops.aten.native_layer_norm_backward(
                g.mul_(layer.gain), was.before, g.shape[-1:], was.mean, was.scale, None, None, [True, False, False]
            )[0]
    of_input = torch.bmm(g, layers[0].weight.transpose(1, 2)).sum(dim=0) if by_input else None
    norms = [*of["gain"][:-1], *of["shift"][:-1]] if len(layers) > 1 and layers[0].gain is not None else []
    return of_input, [*of["weight"], *of["bias"], *norms]
