"""GRPO for vision-language-action policies: episodes are compared within groups that begin alike, without a critic.

As in SimpleVLA-RL (arXiv 2509.09674): the reward is success, groups that all succeed or all fail are left out, and
there is no penalty on the divergence by default.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import IterationResult, check_finite
from rlstack.training.language.demonstrations import check_looks
from rlstack.training.language.policy_gradient import CHANGEABLE, PolicyGradient
from rlstack.training.language.reinforced import ReinforcedSettings
from rlstack.training.language.rollouts import group_advantages, totals
from rlstack.training.language.sampled_trials import SampledTrials


@dataclass(frozen=True, kw_only=True)
class VLAGRPOSettings(ReinforcedSettings):
    """Settings of GRPO for vision-language-action policies."""

    group: int = value(8, at_least=2)
    """Episodes that begin alike; it divides the number of robots."""
    least_success: float = value(0.1, at_least=0.0, at_most=1.0)
    """Smallest share of success of a group that is learned from."""
    most_success: float = value(0.9, at_least=0.0, at_most=1.0)
    """Largest share of it."""


class VLAGRPO(SampledTrials):
    """Learns by GRPO from a supervised policy; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no instruction or images, its rewards are not sparse, or groups do not fit.
    """

    Settings = VLAGRPOSettings
    changeable = CHANGEABLE

    def __init__(self, settings: VLAGRPOSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment, "vla_grpo", settings.temperature, settings.places > 0.0)
        check_looks(environment, settings.network)
        if (environment.count // max(settings.workers, 1)) % settings.group:
            raise UserError(
                f"algorithm_settings: group: {settings.group} is not allowed: it must divide the number of robots"
                f" (envs: {environment.count}) of each process."
            )
        self.settings = settings
        self._longest = -(-environment.task.steps // settings.chunk)
        self.steps_per_iteration = environment.count * environment.task.steps
        self.learner = PolicyGradient(settings, self.policy, self.generator)
        environment.autoreset = False

    def refer(self) -> None:
        """Keep the loaded policy as a reference, if its divergence has a weight."""
        self.learner.refer()

    def iterate(self, done: float) -> IterationResult:
        """Roll out groups, and learn; raise ``NotFinite`` naming the term that is not finite."""
        self.load_pretrained()
        settings = self.settings
        chunks = self.trials.collect(self._longest, alike=settings.group, told_error=settings.told_at(done))
        won = chunks.success.any(dim=0).float().reshape(-1, settings.group)
        gain, kept = group_advantages(won, settings.least_success, settings.most_success)
        scalars = {"train/groups": float(kept.float().mean()), **self.worker_figures()}
        if kept.any():
            robots = kept.repeat_interleave(settings.group)
            counts = chunks.inside[..., 0].bool() & robots  # (T, N)
            index = counts.flatten().nonzero().flatten()
            flat = {name: part.take(index) if name == "seen" else part[index] for name, part in chunks.flat().items()}
            each = gain.flatten().expand_as(chunks.reward).flatten()[index]
            each = each - each.mean()  # failures last longer: else all that was done would become less likely
            scalars |= {f"loss/{name}": loss for name, loss in self.learner.update(flat, each, done).items()}
        check_finite(scalars, "The scalar '{}' is not finite")
        seen = totals([chunks])
        scalars |= {f"train/{name}": share for name, share in seen.items() if name != "lost"}
        per_s = self.environment.task.rate_hz / self.environment.task.steps
        return IterationResult(float(chunks.reward.sum(dim=0).mean()) * per_s, seen["lost"], scalars)

    def change(self, settings: VLAGRPOSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = self.learner.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser, environment and random state."""
        return {**super().state_dict(), "learner": copy.deepcopy(self.learner.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.learner.load_state_dict(state["learner"])


ALGORITHM = VLAGRPO
