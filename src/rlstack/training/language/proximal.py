"""PPO for chunks of actions, with a critic that knows the simulator's state.

The critic learns alone first, since an untrained one destroys the policy (VLA-RL, arXiv 2505.18719).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rlstack.schema import value
from rlstack.training.algorithm import check_finite, check_widths
from rlstack.training.language.actor import LanguageActor
from rlstack.training.language.policy_gradient import PolicyGradient, PolicyGradientSettings
from rlstack.training.language.rollouts import Chunks, CollectsChunks, advantages, totals
from rlstack.training.networks import Normalised, relu_layers
from rlstack.training.optimisers import Adam


@dataclass(frozen=True, kw_only=True)
class ProximalSettings(PolicyGradientSettings):
    """Settings of PPO for chunks of actions."""

    rollout: int = value(20, at_least=2)
    """Chunks of each robot in an iteration."""
    gamma: float = value(0.98, above=0.0, at_most=1.0)
    """Discount for each chunk."""
    gae_lambda: float = value(0.9, at_least=0.0, at_most=1.0)
    """Lambda of generalised advantage estimation."""
    warm_up: int = value(3, at_least=0)
    """Iterations in which the critic learns alone."""
    progress: float = value(0.0, at_least=0.0)
    """Process reward: for each decimetre by which what is moved comes nearer to its goal, beside 1 for success."""
    critic_hidden: tuple[int, ...] = value((128, 128), at_least=1)
    """Widths of the critic's hidden layers."""
    critic_learning_rate: float = value(1e-3, above=0.0)
    critic_epochs: int = value(16, at_least=1)
    """Epochs of the critic over an iteration's experience."""

    def __post_init__(self) -> None:
        check_widths(self, "critic_hidden")


class Critic(Normalised):
    """Value of what only the simulator knows.

    Args:
        columns: Its columns.
        hidden: Widths of the dense layers.
    """

    def __init__(self, columns: int, hidden: tuple[int, ...]) -> None:
        super().__init__(columns)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([columns, *hidden, 1]))

    def forward(self, privileged: Tensor) -> Tensor:
        """Return the value (...) for privileged columns (..., columns)."""
        return relu_layers(self.layers, self.normalised(privileged))[..., 0]


class Proximal:
    """Rolls out a policy, and improves it.

    Args:
        settings: How.
        rollouts: Of the policy.
        policy: It.
        columns: Of what its critic may know.
        generator: Shuffles experience.
        apart: Whether advantages are centred for each robot apart, since each has a task of its own.
        anchor: Loss that each update adds.
    """

    def __init__(
        self,
        settings: ProximalSettings,
        rollouts: CollectsChunks,
        policy: LanguageActor,
        columns: int,
        generator: torch.Generator,
        apart: bool = False,
        anchor: Callable[[], Tensor] | None = None,
    ) -> None:
        self.settings, self.rollouts, self.generator, self._apart = settings, rollouts, generator, apart
        self.learner = PolicyGradient(settings, policy, generator)
        self.learner.anchor = anchor
        self.critic = Critic(columns, settings.critic_hidden)
        self._optimiser = Adam(self.critic.parameters(), lr=settings.critic_learning_rate)
        self._done = 0
        """Completed iterations."""

    def iterate(self, share: float, told_error: float | None = None) -> tuple[Chunks, dict[str, float]]:
        """Roll out, and learn.

        Args:
            share: Completed share of the run.
            told_error: Error with which the simulator tells what would be seen; None: images tell it.

        Returns:
            The experience, and scalars by name.

        Raises:
            NotFinite: Names the scalar that is not finite.
        """
        settings = self.settings
        chunks = self.rollouts.collect(settings.rollout, told_error=told_error)
        if not self._done:
            self.critic.normalise_by(chunks.privileged.flatten(end_dim=1))
        gain, critic_loss = self._judge(chunks)
        scalars = {"loss/critic": critic_loss}
        self._done += 1
        if self._done > settings.warm_up:
            flat = chunks.flat()
            centred = gain - (gain.mean(dim=0) if self._apart else gain.mean())
            scaled = centred / (centred.std() + 1e-6)
            losses = self.learner.update(flat, scaled.flatten(), share)
            scalars |= {f"loss/{name}": loss for name, loss in losses.items()}
        check_finite(scalars, "The scalar '{}' is not finite")
        won = totals([chunks])
        return chunks, scalars | {f"train/{name}": part for name, part in won.items() if name != "lost"}

    def _judge(self, chunks: Chunks) -> tuple[Tensor, float]:
        """Return advantages (T, N) by the critic, and its loss, after it has learned from the returns."""
        settings = self.settings
        with torch.no_grad():
            last = self.critic(chunks.last_privileged)
            value_ = self.critic(chunks.privileged)
        reward = chunks.reward + settings.progress * chunks.nearer
        gain = advantages(reward, value_, last, chunks.done, settings.gamma, settings.gae_lambda)
        wanted, known = (gain + value_).flatten(), chunks.privileged.flatten(end_dim=1)
        losses = []
        for _ in range(settings.critic_epochs):
            for some in torch.randperm(len(wanted), generator=self.generator).split(settings.batch):
                loss = (self.critic(known[some]) - wanted[some]).square().mean()
                self._optimiser.zero_grad(set_to_none=True)
                loss.backward()
                self._optimiser.step()
                losses.append(loss.detach())
        return gain, torch.stack(losses).mean().item()

    def state_dict(self) -> dict[str, Any]:
        """Return critic, optimisers and how far it is."""
        parts = {"critic": self.critic.state_dict(), "critic_optimiser": self._optimiser.state_dict()}
        return copy.deepcopy({**parts, "learner": self.learner.state_dict(), "done": self._done})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned; the policy is loaded before."""
        self.critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["critic_optimiser"])
        self.learner.load_state_dict(state["learner"])
        self._done = state["done"]
