"""Heads of a policy's network: from a feature for each planned step to actions, with losses and log-probabilities.

``tokens`` chooses among bins of each action axis, as RT-2 and OpenVLA do; ``flow`` transports noise along a learned
velocity; ``regression`` predicts the actions, and samples around them.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from rlstack.training.language.flow import FlowHead
from rlstack.training.language.head import Head, gaussian

HeadName = Literal["tokens", "flow", "regression"]

_TOGETHER = 0.8
"""Correlation of the regression's samples between steps of a chunk. Independent ones cancel each other out in the
motion, which hardly explores."""


class TokenHead(Head):
    """A choice among bins for each axis of each step.

    Args:
        width: Width of features.
        axes: Action axes.
        bins: Bins from -1 to 1; an odd number has one at 0.
    """

    def __init__(self, width: int, axes: int, bins: int = 33) -> None:
        super().__init__()
        self.axes, self.bins = axes, bins
        self.logits = nn.Linear(width, axes * bins)

    def loss(self, features: Tensor, actions: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the cross-entropy (batch, steps); an action between two bins is shared by them."""
        place = (actions.clamp(-1.0, 1.0) + 1.0) * (0.5 * (self.bins - 1))
        low = place.floor().clamp(max=self.bins - 2)
        share = (place - low)[..., None]
        found = self._log(features)
        low = low.long()[..., None]
        return -((1.0 - share) * found.gather(-1, low) + share * found.gather(-1, low + 1)).sum(dim=(-2, -1))

    def forward(self, features: Tensor) -> Tensor:
        """Return the centres (batch, steps, axes) of the likeliest bins."""
        return self._actions(self.tokens(features))

    def tokens(self, features: Tensor) -> Tensor:
        """Return the likeliest bins (batch, steps, axes)."""
        return self._split(features).argmax(dim=-1)

    def sample(
        self, features: Tensor, temperature: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, steps, axes) and their bins."""
        share = torch.softmax(self._split(features).float() / temperature, dim=-1)
        flat = torch.multinomial(share.flatten(end_dim=-2), 1, generator=generator)
        choice = flat.reshape(share.shape[:-1])
        return self._actions(choice), choice

    def log_prob(self, features: Tensor, choice: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability and the entropy, both (batch, steps, axes)."""
        found = self._log(features, temperature)
        return found.gather(-1, choice[..., None])[..., 0], -(found.exp() * found).sum(dim=-1)

    def divergence(self, features: Tensor, reference: Tensor, choice: Tensor) -> Tensor:
        """Return the KL divergence (batch, steps, axes) from the reference's log-probabilities."""
        found = self._log(features)
        return (found.exp() * (found - reference)).sum(dim=-1)

    def distribution(self, features: Tensor, choice: Tensor) -> Tensor:
        """Return the log-probabilities (batch, steps, axes, bins)."""
        return self._log(features)

    def _split(self, features: Tensor) -> Tensor:
        return self.logits(features).reshape(features.shape[0], features.shape[1], self.axes, self.bins)

    def _log(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        return torch.log_softmax(self._split(features).float() / temperature, dim=-1)

    def _actions(self, tokens: Tensor) -> Tensor:
        # arithmetic in place of a lookup: the centres are evenly spaced
        return tokens.float() * (2.0 / (self.bins - 1)) - 1.0


class RegressionHead(Head):
    """Predicts the actions, by absolute error; samples have a learned deviation for each axis.

    Samples of a chunk's steps are correlated. In the coordinates of the cosine transform over the steps they are
    independent, so log-probabilities are those of the chunk's mean, trend, and so on, in place of those of its steps.

    Args:
        width: Width of features.
        axes: Action axes.
        std: Initial deviation.
    """

    def __init__(self, width: int, axes: int, std: float = 0.15) -> None:
        super().__init__()
        self.axes = axes
        self.mean = nn.Linear(width, axes)
        self.log_std = nn.Parameter(torch.full((axes,), math.log(std)))

    def loss(self, features: Tensor, actions: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the absolute error (batch, steps)."""
        return (self.mean(features).float() - actions).abs().sum(dim=-1)

    def forward(self, features: Tensor) -> Tensor:
        """Return the predicted actions (batch, steps, axes)."""
        predicted: Tensor = self.mean(features)
        return predicted

    def sample(
        self, features: Tensor, temperature: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, steps, axes), which are also the choice; the environment clips them."""
        mean = self.mean(features)
        noise = torch.randn(mean.shape, generator=generator) * self._std(mean.shape[1], temperature)
        choice = mean + _cosines(mean.shape[1]).T @ noise
        return choice, choice

    def log_prob(self, features: Tensor, choice: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability and the entropy, both (batch, steps, axes)."""
        apart = _cosines(choice.shape[1]) @ (choice - self.mean(features))
        std = self._std(choice.shape[1], temperature).expand_as(apart)
        return gaussian(apart, torch.zeros_like(apart), std), torch.log(std) + 0.5 * math.log(2.0 * math.pi * math.e)

    def divergence(self, features: Tensor, reference: Tensor, choice: Tensor) -> Tensor:
        """Return the KL divergence (batch, steps, axes) from a Gaussian with the reference's mean."""
        steps = reference.shape[1]
        return 0.5 * (_cosines(steps) @ (self.mean(features) - reference) / self._std(steps, 1.0)).square()

    def distribution(self, features: Tensor, choice: Tensor) -> Tensor:
        """Return the mean (batch, steps, axes)."""
        mean: Tensor = self.mean(features)
        return mean

    def _std(self, steps: int, temperature: float) -> Tensor:
        """Return the deviation (steps, axes) of the coordinates of the cosine transform."""
        share = torch.full((steps, 1), 1.0 - _TOGETHER)
        share[0] += _TOGETHER * steps
        return share.sqrt() * self.log_std.exp() * temperature


def make_head(name: HeadName, width: int, axes: int, bins: int) -> Head:
    """Return a head by its name."""
    if name == "tokens":
        return TokenHead(width, axes, bins)
    return FlowHead(width, axes) if name == "flow" else RegressionHead(width, axes)


def _cosines(steps: int) -> Tensor:
    """Return the orthonormal cosine transform (steps, steps), whose first row is the mean's."""
    place = torch.arange(steps, dtype=torch.float32)
    rows = torch.cos(math.pi * place[:, None] * (place + 0.5) / steps) * (2.0 / steps) ** 0.5
    rows[0] = steps**-0.5
    return rows
