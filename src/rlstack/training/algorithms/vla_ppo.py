"""PPO for vision-language-action policies: see :mod:`rlstack.training.language.proximal`.

The policy begins with a run of vla_sft, and learns from success alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import IterationResult
from rlstack.training.language.demonstrations import check_looks
from rlstack.training.language.policy_gradient import CHANGEABLE
from rlstack.training.language.proximal import Proximal, ProximalSettings
from rlstack.training.language.rollouts import totals
from rlstack.training.language.sampled_trials import SampledSettings, SampledTrials


@dataclass(frozen=True, kw_only=True)
class VLAPPOSettings(ProximalSettings, SampledSettings):
    """Settings of PPO for vision-language-action policies."""

    blind: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of the iterations, from the beginning, in which no image is rendered: the policy acts by what the simulator
    tells of things. It needs ``fixed_eyes``, and a network with ``looks``."""
    told_error: float = value(0.008, at_least=0.0)
    """Standard deviation with which it tells where they are, of half an image: about that of what is seen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blind and not (self.fixed_eyes and self.network.looks):
            raise ValueError(
                f"blind: {self.blind:g} is not allowed without fixed_eyes: true and looks of the network: nobody can"
                " tell what such a policy sees."
            )


class VLAPPO(SampledTrials):
    """Learns by PPO from a supervised policy; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no instruction or images, or its rewards are not sparse.
    """

    Settings = VLAPPOSettings
    changeable = (*CHANGEABLE, "gamma", "gae_lambda", "critic_epochs")

    def __init__(self, settings: VLAPPOSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment, "vla_ppo", settings.temperature, settings.places > 0.0)
        check_looks(environment, settings.network)
        self.settings = settings
        self.steps_per_iteration = settings.rollout * settings.chunk * environment.count
        self.proximal = Proximal(settings, self.trials, self.policy, self.environment.privileged_size, self.generator)

    def refer(self) -> None:
        """Keep the loaded policy as a reference, if its divergence has a weight."""
        self.proximal.learner.refer()

    def iterate(self, done: float) -> IterationResult:
        """Roll out, and learn; raise ``NotFinite`` naming the term that is not finite."""
        self.load_pretrained()
        settings = self.settings
        told_error = settings.told_error if done < settings.blind else None
        chunks, scalars = self.proximal.iterate(done, told_error)
        scalars |= self.worker_figures()
        per_s = self.environment.task.rate_hz / (settings.chunk * settings.rollout)
        return IterationResult(float(chunks.reward.sum(dim=0).mean()) * per_s, totals([chunks])["lost"], scalars)

    def change(self, settings: VLAPPOSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = self.proximal.settings = self.proximal.learner.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state."""
        return {**super().state_dict(), **self.proximal.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.proximal.load_state_dict(state)


ALGORITHM = VLAPPO
