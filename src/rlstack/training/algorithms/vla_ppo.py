"""PPO for vision-language-action policies: see :mod:`rlstack.training.language.proximal`.

The policy begins with a run of vla_sft, and learns from success alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import IterationResult
from rlstack.training.language.demonstrations import check_looks
from rlstack.training.language.policy_gradient import CHANGEABLE
from rlstack.training.language.proximal import Proximal, ProximalSettings
from rlstack.training.language.reinforced import ReinforcedSettings
from rlstack.training.language.rollouts import totals
from rlstack.training.language.sampled_trials import SampledTrials


@dataclass(frozen=True, kw_only=True)
class VLAPPOSettings(ProximalSettings, ReinforcedSettings):
    """Settings of PPO for vision-language-action policies."""

    def __post_init__(self) -> None:
        ProximalSettings.__post_init__(self)
        ReinforcedSettings.__post_init__(self)


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
        chunks, scalars = self.proximal.iterate(done, settings.told_at(done))
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
