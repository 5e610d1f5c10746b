"""Heads of a policy's network: from a feature for each planned step to actions, with losses and log-probabilities.

``tokens`` chooses among bins of each action axis, as RT-2 and OpenVLA do; ``flow`` transports noise along a learned
velocity (flow matching, Lipman et al., arXiv 2210.02747; as a Markov chain with learned noise in each step it has
log-probabilities: Flow-Noise, arXiv 2510.25889); ``regression`` predicts the actions, and samples around them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

HeadName = Literal["tokens", "flow", "regression"]

_FLOW_STEPS = 6
"""Steps from noise to an action."""
_CHAIN_STD = 0.12
"""Initial deviation of the noise in each of them where actions are sampled; it stays within a factor e of this."""
_TOGETHER = 0.8
"""Correlation of the regression's samples between steps of a chunk. Independent ones cancel each other out in the
motion, which hardly explores."""


class Head(nn.Module):
    """From features (batch, steps, width) to chunks of actions (batch, steps, axes) in -1..1.

    A *choice* is what was sampled, from which log-probabilities follow; its first two axes are batch and steps.
    """

    axes: int

    @abstractmethod
    def loss(self, features: Tensor, actions: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the supervised loss (batch, steps) of actions (batch, steps, axes)."""

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """Return the deterministic actions (batch, steps, axes)."""

    @abstractmethod
    def sample(
        self, features: Tensor, temperature: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, steps, axes) and the choice; a temperature above 1 explores more."""

    @abstractmethod
    def log_prob(self, features: Tensor, choice: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability and the entropy, both (batch, steps, axes), of a choice at a temperature."""

    @abstractmethod
    def divergence(self, features: Tensor, reference: Tensor, choice: Tensor) -> Tensor:
        """Return the KL divergence (batch, steps, axes) from a reference policy.

        Args:
            features: (batch, steps, width) of the policy.
            reference: What the reference's :meth:`distribution` returned.
            choice: What was sampled.
        """

    @abstractmethod
    def distribution(self, features: Tensor, choice: Tensor) -> Tensor:
        """Return what :meth:`divergence` needs of the reference policy's features."""


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
        return _gaussian(apart, torch.zeros_like(apart), std), torch.log(std) + 0.5 * math.log(2.0 * math.pi * math.e)

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


class Flow(Head):
    """Transports noise to actions along a velocity, in a few equal steps.

    The flow may have more axes than the actions, which they are filled up to; their log-probability does not count.

    Args:
        axes: Action axes.
        flow_steps: Steps from noise to an action.
    """

    def __init__(self, axes: int, flow_steps: int = _FLOW_STEPS) -> None:
        super().__init__()
        self.axes, self.flow_steps = axes, flow_steps

    @abstractmethod
    def still(self, features: Tensor) -> Tensor:
        """Return zeros of the shape of the noise for these features: (batch, steps, axes of the flow)."""

    @abstractmethod
    def velocity_at(self, features: Tensor, now: Tensor, time: Tensor) -> Tensor:
        """Return the velocity (batch, steps, axes of the flow) where the flow is ``now``.

        Args:
            features: Of the network.
            now: (batch, steps, axes of the flow).
            time: (batch or 1, 1, 1) from 0, noise, to 1, actions.
        """

    @abstractmethod
    def spread(self, features: Tensor) -> Tensor:
        """Return what widens or narrows the noise of each step where actions are sampled: (batch, steps, axes)."""

    def inner(self, actions: Tensor) -> Tensor:
        """Return actions (batch, steps, axes) as where the flow ends."""
        return actions

    def outer(self, end: Tensor) -> Tensor:
        """Return the actions (batch, steps, axes) of where the flow ends."""
        return end

    def times(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Return random times (count, 1, 1) to learn at."""
        return torch.rand((count, 1, 1), generator=generator)

    def loss(self, features: Tensor, actions: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the squared error (batch, steps) of the velocity at a random time between noise and actions."""
        time, end = self.times(len(actions), generator), self.inner(actions)
        noise = torch.randn(end.shape, generator=generator)
        between = (1.0 - time) * noise + time * end
        wrong = self.velocity_at(features, between, time) - (end - noise)
        return wrong[..., : self.axes].square().sum(dim=-1)

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the actions (batch, steps, axes) that ``noise`` becomes; None: zeros, its mean."""
        now = self.still(features) if noise is None else noise
        for k in range(self.flow_steps):
            now = self._next(features, now, k)
        return self.outer(now)

    def sample(
        self, features: Tensor, temperature: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, steps, axes) and the chain (batch, steps, axes, flow steps + 1) to them."""
        shape, std = self.still(features).shape, self._std(features, temperature)
        std = functional.pad(std, (0, shape[-1] - self.axes))
        chain = [torch.randn(shape, generator=generator)]
        for k in range(self.flow_steps):
            noise = torch.randn(shape, generator=generator)
            chain.append(self._next(features, chain[-1], k) + std * noise)
        return self.outer(chain[-1]), torch.stack(chain, dim=-1)

    def log_prob(self, features: Tensor, choice: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability of the chain given its first noise, and its entropy, both (batch, steps, axes)."""
        std = self._std(features, temperature)
        means = self.distribution(features, choice)
        found = _gaussian(choice[..., : self.axes, 1:], means, std[..., None]).sum(dim=-1)
        entropy = self.flow_steps * (torch.log(std) + 0.5 * math.log(2.0 * math.pi * math.e))
        return found, entropy

    def divergence(self, features: Tensor, reference: Tensor, choice: Tensor) -> Tensor:
        """Return the KL divergence (batch, steps, axes) of the chain from the reference's means."""
        std = self._std(features, 1.0)[..., None]
        return 0.5 * ((self.distribution(features, choice) - reference) / std).square().sum(dim=-1)

    def distribution(self, features: Tensor, choice: Tensor) -> Tensor:
        """Return the chain's means (batch, steps, axes, flow steps)."""
        means = [self._next(features, choice[..., k], k)[..., : self.axes] for k in range(self.flow_steps)]
        return torch.stack(means, dim=-1)

    def _std(self, features: Tensor, temperature: float) -> Tensor:
        """Return the deviation (batch, steps, axes) of the noise in each step of the chain."""
        return _CHAIN_STD * temperature * torch.exp(torch.tanh(self.spread(features)))

    def _next(self, features: Tensor, now: Tensor, k: int) -> Tensor:
        time = torch.full((1, 1, 1), k / self.flow_steps, dtype=features.dtype)
        return now + self.velocity_at(features, now, time) * (1.0 / self.flow_steps)


class FlowHead(Flow):
    """A flow whose velocity is that of dense layers, for each step by itself.

    Args:
        width: Width of features.
        axes: Action axes.
    """

    def __init__(self, width: int, axes: int) -> None:
        super().__init__(axes)
        self.velocity = nn.Sequential(nn.Linear(width + axes + 3, 2 * width), nn.ReLU(), nn.Linear(2 * width, axes))
        self.noise = nn.Linear(width, axes)
        nn.init.zeros_(self.noise.weight)
        nn.init.zeros_(self.noise.bias)

    def spread(self, features: Tensor) -> Tensor:
        """Return what widens or narrows the noise: (batch, steps, axes)."""
        found: Tensor = self.noise(features)
        return found

    def still(self, features: Tensor) -> Tensor:
        """Return zeros (batch, steps, axes)."""
        return torch.zeros_like(features[..., : self.axes])

    def velocity_at(self, features: Tensor, now: Tensor, time: Tensor) -> Tensor:
        """Return the velocity (batch, steps, axes) where the flow is ``now``."""
        angle = time * (0.5 * math.pi)
        when = torch.cat([time, torch.cos(angle), torch.sin(angle)], dim=-1)
        when = when + torch.zeros_like(features[..., :3])
        found: Tensor = self.velocity(torch.cat([features, now, when], dim=-1)).float()
        return found


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


def _gaussian(value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return functional.gaussian_nll_loss(mean, value, std.square().expand_as(mean), full=True, reduction="none").neg()
