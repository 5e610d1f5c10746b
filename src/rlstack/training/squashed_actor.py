"""The policy of soft actor-critic, with the gradient of its loss written out.

Its layers are small, so that most of an update's time is what autograd and Python do about each operation. Sampling
follows Haarnoja et al., "Soft Actor-Critic Algorithms and Applications" (arXiv 1812.05905).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.training.algorithm import Actor

_LOG_STD = -5.0, 2.0
"""Bounds of the logarithm of an action's standard deviation, before tanh; as in the authors' code of SAC."""
_HALF = 0.5 * (_LOG_STD[1] - _LOG_STD[0])

Slopes = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps observation (batch, columns) and action (batch, actions) to a value (batch,) and its gradient by the action."""


class Improved(NamedTuple):
    """What a step of learning saw: log-probabilities (batch,), values (batch,) and the cloning loss ()."""

    density: Tensor
    value: Tensor
    clone: Tensor


class _Drawn(NamedTuple):
    """Samples and what they come from, each (batch, actions), before tanh."""

    mean: Tensor
    spread: Tensor
    """-1 to 1, for the least to the greatest ``log_std``."""
    log_std: Tensor
    noise: Tensor
    deviation: Tensor
    raw: Tensor
    """Mean and deviation."""

    def density(self) -> Tensor:
        """Return the log-probabilities (batch,) of the squashed samples."""
        # the log of tanh's slope, in a form that does not overflow
        slope = 2.0 * (math.log(2.0) - self.raw - functional.softplus(-2.0 * self.raw))
        return (-0.5 * self.noise * self.noise - self.log_std - 0.5 * math.log(2.0 * math.pi) - slope).sum(dim=-1)


class SquashedActor(Actor):
    """Dense layers and a tanh-squashed Gaussian; its mean when deployed.

    Args:
        inputs: Observation columns.
        actions: Number of actions.
        hidden: Widths of the layers.
    """

    def __init__(self, inputs: int, actions: int, hidden: Sequence[int]) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.mean, self.spread = nn.Linear(widths[-1], actions), nn.Linear(widths[-1], actions)

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean action (batch, actions), squashed, and an empty hidden state."""
        return torch.tanh(self.mean(self._features(observation)[-1])), {}

    def sample(self, observation: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, actions) and their log-probabilities (batch,)."""
        drawn = self._draw(self._features(observation)[-1], generator)
        return torch.tanh(drawn.raw), drawn.density()

    @torch.no_grad()
    def learn(
        self,
        observation: Tensor,
        slopes: Slopes,
        temperature: Tensor,
        generator: torch.Generator,
        shown: tuple[Tensor, Tensor] | None = None,
        cloning: float = 0.0,
    ) -> Improved:
        """Set the parameters' gradients of the mean of temperature times log-probability, minus value, and of cloning.

        Args:
            observation: (batch, columns).
            slopes: The value of sampled actions, which is to grow.
            temperature: () weight of the entropy.
            generator: Draws actions.
            shown: Demonstrated actions (batch, actions), and which are (batch,) bool.
            cloning: Weight of the squared error of the mean actions to these, over the batch's size.
        """
        layers = self._features(observation)
        drawn = self._draw(layers[-1], generator)
        action = torch.tanh(drawn.raw)
        value, slope = slopes(observation, action)
        # tanh's slope is 1 - action^2, and that of the log-probability 2 action by the sample and -1 by log_std
        by_mean = (temperature * 2.0 * action - slope * (1.0 - action * action)) / len(action)
        by_log_std = by_mean * drawn.deviation - temperature / len(action)
        by_spread = by_log_std * (_HALF * (1.0 - drawn.spread * drawn.spread))
        clone = temperature.new_zeros(())
        if shown is not None:
            deployed = torch.tanh(drawn.mean)
            error = (deployed - shown[0]) * shown[1][:, None]
            clone = error.square().sum() / len(action)
            by_mean = by_mean + (2.0 * cloning / len(action)) * error * (1.0 - deployed * deployed)
        _set(self.mean, layers[-1], by_mean)
        _set(self.spread, layers[-1], by_spread)
        g = torch.addmm(by_mean @ self.mean.weight, by_spread, self.spread.weight)
        for k in reversed(range(len(self.layers))):
            g = torch.ops.aten.threshold_backward(g, layers[k + 1], 0)
            linear = self.layers[k]
            assert isinstance(linear, nn.Linear)
            _set(linear, layers[k], g)
            if k:
                g = g @ linear.weight
        return Improved(drawn.density(), value, clone)

    def _draw(self, features: Tensor, generator: torch.Generator | None) -> _Drawn:
        """Sample actions, given the outputs of the last hidden layer."""
        mean, spread = self.mean(features), torch.tanh(self.spread(features))
        log_std = _LOG_STD[0] + _HALF * (spread + 1.0)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        deviation = noise * log_std.exp()
        return _Drawn(mean, spread, log_std, noise, deviation, mean + deviation)

    def _features(self, observation: Tensor) -> list[Tensor]:
        """Return the observation and the outputs of all hidden layers."""
        found = [observation]
        for layer in self.layers:
            found.append(torch.relu(layer(found[-1])))
        return found


def _set(linear: nn.Linear, below: Tensor, gradient: Tensor) -> None:
    """Set the gradients of a layer's parameters."""
    linear.weight.grad = gradient.T @ below
    linear.bias.grad = gradient.sum(dim=0)
