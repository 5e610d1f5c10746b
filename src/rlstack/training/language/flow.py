"""Flows: heads that transport noise to actions along a learned velocity (Lipman et al., arXiv 2210.02747).

For reinforcement they are Markov chains, whose steps are Gaussian: with learned noise (Flow-Noise), or as a stochastic
differential equation with the distribution that the flow has at each time (Flow-SDE); both are of arXiv 2510.25889.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.training.language.head import Exploration, Head, gaussian

_FLOW_STEPS = 6
"""Steps from noise to an action."""
_CHAIN_STD = 0.12
"""Initial deviation of the noise in each of them where actions are sampled; it stays within a factor e of this."""
_SDE_LEVEL = 0.5
"""Noise of the stochastic differential equation, as in Flow-SDE."""


class Flow(Head):
    """Transports noise to actions along a velocity, in a few equal steps.

    The flow may have more steps and axes than the actions, which they are filled up to; their log-probability does not
    count, and they have no noise but the first.

    Args:
        axes: Action axes.
        flow_steps: Steps from noise to an action.
        beyond: Further planned steps, and further axes, of the flow.
    """

    def __init__(self, axes: int, flow_steps: int = _FLOW_STEPS, beyond: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.axes, self.flow_steps, self.beyond = axes, flow_steps, beyond
        self._exploration: Exploration = "noise"

    def explore_by(self, exploration: Exploration) -> None:
        """Choose how actions are sampled."""
        self._exploration = exploration

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

    def filled(self, part: Tensor) -> Tensor:
        """Return what is of actions (batch, steps, axes) as a part of the flow, with zeros beyond."""
        steps, axes = self.beyond
        return functional.pad(part, (0, axes, 0, steps)) if steps or axes else part

    def trimmed(self, whole: Tensor) -> Tensor:
        """Return the part of the flow that is of actions: (batch, steps, axes)."""
        steps, axes = self.beyond
        return whole[:, : -steps or None, : -axes or None]

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
        return self.trimmed(wrong).square().sum(dim=-1)

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the actions (batch, steps, axes) that ``noise`` (batch or 1, steps, axes of the flow) becomes.

        None: zeros, its mean.
        """
        now = self.still(features)
        now = now if noise is None else now + noise
        for k in range(self.flow_steps):
            now = self._next(now, self.velocity_at(features, now, self._time(k)))
        return self.outer(now)

    def sample(
        self, features: Tensor, temperature: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, steps, axes) and the chain (batch, steps, axes of the flow, points) to them.

        With one random step, the chain is the points before and after that step, and the number of it.
        """
        now = torch.randn(self.still(features).shape, generator=generator)
        noisy = torch.ones(self.flow_steps, len(now), 1, 1)
        which = torch.zeros(0)
        if self._exploration == "sde_step":
            which = torch.randint(self.flow_steps, (len(now), 1, 1), generator=generator).float()
            noisy = (which == torch.arange(self.flow_steps)[:, None, None, None]).float()
        chain = [now]
        for k in range(self.flow_steps):
            mean, std = self._step(features, now, self._time(k), temperature, noisy[k])
            now = mean + self.filled(std * noisy[k]) * torch.randn(now.shape, generator=generator)
            chain.append(now)
        points = torch.stack(chain, dim=-1)
        if self._exploration == "sde_step":
            index = which[..., None].long().expand(*points.shape[:-1], 1)
            pair = torch.cat([points.gather(-1, index), points.gather(-1, index + 1)], dim=-1)
            return self.outer(now), torch.cat([pair, index.to(pair.dtype)], dim=-1)
        return self.outer(now), points

    def log_prob(self, features: Tensor, choice: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability of the chain given its first noise, and its entropy, both (batch, steps, axes)."""
        found, entropy = torch.zeros(()), torch.zeros(())
        for now, after, time in self._transitions(choice):
            mean, std = self._step(features, now, time, temperature)
            found = found + gaussian(self.trimmed(after), self.trimmed(mean), std)
            entropy = entropy + torch.log(std) + 0.5 * math.log(2.0 * math.pi * math.e)
        return found, entropy.expand_as(found)

    def divergence(self, features: Tensor, reference: Tensor, choice: Tensor) -> Tensor:
        """Return the KL divergence (batch, steps, axes) of the chain from the reference's means."""
        found = torch.zeros(())
        for k, (now, _, time) in enumerate(self._transitions(choice)):
            mean, std = self._step(features, now, time, 1.0)
            found = found + 0.5 * ((self.trimmed(mean) - reference[..., k]) / std).square()
        return found

    def distribution(self, features: Tensor, choice: Tensor) -> Tensor:
        """Return the means (batch, steps, axes, noisy steps) of the chain at a temperature of 1."""
        steps = [self._step(features, now, time, 1.0)[0] for now, _, time in self._transitions(choice)]
        return torch.stack([self.trimmed(mean) for mean in steps], dim=-1)

    def _transitions(self, choice: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the noisy steps of a chain: the points before and after, and the time (batch or 1, 1, 1) before."""
        if self._exploration == "sde_step":
            yield choice[..., 0], choice[..., 1], choice[:, :1, :1, 2] * (1.0 / self.flow_steps)
            return
        for k in range(self.flow_steps):
            yield choice[..., k], choice[..., k + 1], self._time(k)

    def _step(
        self, features: Tensor, now: Tensor, time: Tensor, temperature: float, noisy: Tensor | float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Return the mean (batch, steps, axes of the flow) of the next point, and its deviation (batch, steps, axes).

        Args:
            features: Of the network.
            now: The point before.
            time: Before.
            temperature: Of the samples.
            noisy: 1 for chains whose step has noise, else 0, which is the flow's own step.
        """
        velocity = self.velocity_at(features, now, time)
        mean = self._next(now, velocity)
        if self._exploration == "noise":
            return mean, _CHAIN_STD * temperature * torch.exp(torch.tanh(self.spread(features)))
        # The score is -noise / (1 - time), and a drift of half the variance times it leaves distributions as they are.
        # The variance is a level times (1 - time) / time: infinite at 0, where that of the next time is taken.
        step = 1.0 / self.flow_steps
        level = step * (_SDE_LEVEL * temperature) ** 2 / time.clamp(min=step)
        back = 0.5 * level * noisy * self.trimmed(now - time * velocity)
        return mean - self.filled(back), (level * (1.0 - time)).sqrt().expand_as(back)

    def _next(self, now: Tensor, velocity: Tensor) -> Tensor:
        """Return the point after a step along a velocity."""
        return now + velocity * (1.0 / self.flow_steps)

    def _time(self, k: int) -> Tensor:
        """Return the time (1, 1, 1) before a step."""
        return torch.full((1, 1, 1), k / self.flow_steps)


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
