"""PPO for vision-language-action policies: chunks of action tokens, and a critic that knows the simulator's state.

The policy begins with a run of vla_sft, and learns from success alone. The critic learns alone first, since an
untrained one destroys the policy (VLA-RL, arXiv 2505.18719).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import IterationResult, check_finite, check_widths
from rlstack.training.language.fine_tuning import FineTuning, FineTuningSettings
from rlstack.training.language.overlap import policy_gradient
from rlstack.training.language.policy_gradient import PolicyGradientSettings
from rlstack.training.language.rollouts import Chunks, advantages, totals
from rlstack.training.networks import Normalised, relu_layers
from rlstack.training.optimisers import Adam


@dataclass(frozen=True, kw_only=True)
class VLAPPOSettings(PolicyGradientSettings, FineTuningSettings):
    """Settings of PPO for vision-language-action policies."""

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


class VLAPPO(FineTuning):
    """Learns by PPO from a supervised policy; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no instruction or images, or its rewards are not sparse.
    """

    Settings = VLAPPOSettings

    def __init__(self, settings: VLAPPOSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment, "vla_ppo", settings.temperature)
        self.settings = settings
        self.steps_per_iteration = settings.rollout * settings.chunk * environment.count
        self.learner = policy_gradient(settings, self.policy, self.generator)
        self.critic = Critic(self.environment.privileged_size, settings.critic_hidden)
        self._optimiser = Adam(self.critic.parameters(), lr=settings.critic_learning_rate)
        self._done = 0
        """Completed iterations."""

    def refer(self) -> None:
        """Keep the loaded policy as a reference, if its divergence has a weight."""
        self.learner.refer()

    def iterate(self, done: float) -> IterationResult:
        """Roll out, and learn; raise ``NotFinite`` naming the term that is not finite."""
        self.load_pretrained()
        settings = self.settings
        chunks = self.rollouts.collect(settings.rollout)
        if not self._done:
            self.critic.normalise_by(chunks.privileged.flatten(end_dim=1))
        gain, critic_loss = self._judge(chunks)
        scalars = {"loss/critic": critic_loss}
        self._done += 1
        if self._done > settings.warm_up:
            flat = chunks.flat()
            scaled = (gain - gain.mean()) / (gain.std() + 1e-6)
            losses = self.learner.update(flat, scaled.flatten(), done)
            scalars |= {f"loss/{name}": loss for name, loss in losses.items()}
        check_finite(scalars, "The scalar '{}' is not finite")
        won = totals([chunks])
        scalars |= {f"train/{name}": share for name, share in won.items() if name != "lost"}
        per_s = self.environment.task.rate_hz / (settings.chunk * settings.rollout)
        return IterationResult(float(chunks.reward.sum(dim=0).mean()) * per_s, won["lost"], scalars)

    def _judge(self, chunks: Chunks) -> tuple[Tensor, float]:
        """Return advantages (T, N) by the critic, and its loss, after it has learned from the returns."""
        settings = self.settings
        with torch.no_grad():
            last = self.critic(self.environment.privileged())
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
        """Return networks, optimisers, environment and random state."""
        parts = {"critic": self.critic.state_dict(), "critic_optimiser": self._optimiser.state_dict()}
        return copy.deepcopy(
            {**super().state_dict(), **parts, "learner": self.learner.state_dict(), "done": self._done}
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["critic_optimiser"])
        self.learner.load_state_dict(state["learner"])
        self._done = state["done"]


ALGORITHM = VLAPPO
