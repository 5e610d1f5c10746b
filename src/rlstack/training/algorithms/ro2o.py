"""RO2O: learn from a robot's recordings first, then go on with steps of one's own, without forgetting.

Wen et al., "Towards Robust Offline-to-Online Reinforcement Learning via Uncertainty and Smoothness" (arXiv 2309.16973).
Values are the minimum of an ensemble and, with the policy, smooth about the observations that were seen; where the
ensemble disagrees there, values are lowered. The same losses serve before and after the first step of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.training.prior_steps import RecordedSteps, RecordingSettings
from rlstack.training.soft_actor_critic import Further


@dataclass(frozen=True, kw_only=True)
class RO2OSettings(RecordingSettings):
    """Settings of RO2O."""

    critics: int = value(10, at_least=2)
    drawn_critics: int = value(10, at_least=1)
    """All of them, whose minimum is the target, as in the paper."""
    pretraining: int = value(5000, at_least=0)
    """Updates of policy and critics from the recordings, before the first step."""
    warm_up: int = value(0, at_least=0)
    nearby: float = value(0.01, at_least=0.0)
    """Largest distance of the observations at which values and policy are to be the same, in standard deviations of the
    recorded ones."""
    value_smoothness: float = value(1e-4, at_least=0.0)
    """Weight of the loss on values that change nearby."""
    policy_smoothness: float = value(0.1, at_least=0.0)
    """Weight of the loss on a policy that changes nearby."""
    pessimism: float = value(1e-4, at_least=0.0)
    """Weight of the loss that lowers values of the policy's actions nearby by the ensemble's disagreement."""


class RO2O(RecordedSteps):
    """See :class:`rlstack.training.prior_steps.RecordedSteps`."""

    Settings = RO2OSettings
    changeable = (*RecordedSteps.changeable, "nearby", "value_smoothness", "policy_smoothness", "pessimism")
    settings: RO2OSettings

    def _measure(self, recorded: dict[str, Tensor]) -> None:
        self._scale = recorded["observation"].std(dim=0)

    def _action(self, observation: Tensor) -> Tensor:
        return self.learner.act(observation)

    def _pretrain(self) -> None:
        assert self.replay is not None
        for _ in range(self.settings.pretraining):
            self._learn(self.replay.shown(self.settings.batch, self.settings.hindsight))

    def _learn(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        settings, learner = self.settings, self.learner
        seen, spread = batch["observation"], settings.nearby * self._scale
        near = seen + spread * (2.0 * torch.rand(seen.shape, generator=self.generator) - 1.0)

        with torch.no_grad():
            chosen, _ = learner.actor.sample(near, self.generator)

        def values_nearby(values: Tensor, nearby: Tensor) -> Tensor:
            """Return the sum over critics of the losses about smoothness and disagreement."""
            same, guessed = nearby.chunk(2, dim=1)
            told = guessed - (guessed - guessed.std(dim=0)).detach()
            each = settings.value_smoothness * (same - values).square() + settings.pessimism * told.square()
            return each.mean(dim=1).sum()

        def policy_nearby() -> Tensor:
            """Return the mean squared change of the policy's mean action."""
            here, there = learner.actor(seen, {})[0], learner.actor(near, {})[0]
            return settings.policy_smoothness * (there - here).square().sum(dim=1).mean()

        further = Further(near.repeat(2, 1), torch.cat([batch["action"], chosen]), values_nearby)
        return self._update(batch, further, policy_nearby)


ALGORITHM = RO2O
