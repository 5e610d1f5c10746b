"""H2O: a robot's recordings and a simulator that differs from it, at once.

Niu et al., "When to Trust Your Simulator: Dynamics-Aware Hybrid Offline-and-Online Reinforcement Learning" (arXiv
2206.13464). Half of each batch was recorded on the robot, half comes from the simulator. Two classifiers learn where
the simulator's steps differ: there, values are lowered, and simulated steps count less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import check_widths
from rlstack.training.dynamics_gap import DynamicsGap
from rlstack.training.prior_steps import RecordedSteps, RecordingSettings
from rlstack.training.soft_actor_critic import Further


@dataclass(frozen=True, kw_only=True)
class H2OSettings(RecordingSettings):
    """Settings of H2O."""

    regularisation: float = value(0.01, at_least=0.0)
    """Weight of the loss that lowers values where the simulator differs and raises those of recorded steps."""
    classifier_hidden: tuple[int, ...] = value((256, 256), at_least=1)
    """Widths of the hidden layers of the two classifiers."""
    classifier_rate: float = value(3e-4, above=0.0)
    """Learning rate of the two classifiers."""
    classifier_noise: float = value(0.1, at_least=0.0)
    """Noise on the classifiers' inputs, in standard deviations of them."""
    learned_first: int = value(1000, at_least=0)
    """Updates of the classifiers before they are believed; until then all steps count alike."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_widths(self, "classifier_hidden")


class H2O(RecordedSteps):
    """See :class:`rlstack.training.prior_steps.RecordedSteps`."""

    Settings = H2OSettings
    changeable = (*RecordedSteps.changeable, "regularisation")
    settings: H2OSettings

    def __init__(self, settings: H2OSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment)
        pipeline = environment.pipeline
        self.gap = DynamicsGap(
            pipeline.size,
            pipeline.action_size,
            self.generator,
            settings.classifier_hidden,
            learning_rate=settings.classifier_rate,
            noise=settings.classifier_noise,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; replayed steps stay in their files."""
        return {**super().state_dict(), "gap": self.gap.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.gap.load_state_dict(state["gap"])

    def _measure(self, recorded: dict[str, Tensor]) -> None:
        self.gap.measure(recorded)

    def _learn(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        logged = self.gap.update(batch)
        if self._updates < self.settings.learned_first:
            return {**logged, **self._update(batch)}
        real = batch["demonstrated"] > 0.5
        ratio = self.gap.ratio(batch)
        gaps = self.gap.divergence(batch)[~real]
        shares = (gaps / gaps.sum()).log()
        logged |= {"simulated_weight": ratio[~real].mean(), "gap": gaps.mean()}

        def by_gaps(values: Tensor, _: Tensor) -> Tensor:
            """Return, summed over critics, the soft maximum of simulated values by their gaps, less recorded ones."""
            simulated = torch.logsumexp(values[:, ~real] + shares, dim=1)
            return self.settings.regularisation * (simulated - values[:, real].mean(dim=1)).sum()

        weighted = {**batch, "weight": torch.where(real, 1.0, ratio)}
        further = Further(batch["observation"][:0], batch["action"][:0], by_gaps)
        return {**logged, **self._update(weighted, further if (~real).any() and real.any() else None)}


ALGORITHM = H2O
