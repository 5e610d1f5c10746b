"""RLIF: interventions are the only reward.

Luo et al., "RLIF: Interactive Imitation Learning as Reinforcement Learning" (arXiv 2311.12996): a step before an
intervention has a reward of -1, every other step 0, and RLPD learns from that. The task's reward is not used and
interventions are not cloned (demonstrations are, with ``cloning``), so the person who intervenes need not master the
task, but only know when it goes wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalStep, LearningEnvironment, failed
from rlstack.training.algorithms.hil_serl import HILSERL, HILSERLSettings
from rlstack.training.intervention_strategies import IntervenerSettings


@dataclass(frozen=True, kw_only=True)
class RLIFSettings(HILSERLSettings):
    """Settings of RLIF."""

    intervener: IntervenerSettings = field(default_factory=lambda: IntervenerSettings(kind="action"))


class RLIF(HILSERL):
    """See :class:`rlstack.training.algorithms.hil_serl.HILSERL`.

    Raises:
        UserError: The task has no scripted expert, it seldom succeeds, or hindsight is set.
    """

    Settings = RLIFSettings
    settings: RLIFSettings
    unrewarded = True  # a demonstration has no intervention

    def __init__(self, settings: RLIFSettings, environment: LearningEnvironment) -> None:
        if settings.hindsight:
            raise UserError(
                "algorithm_settings: hindsight is not allowed with rlif, whose rewards do not depend on goals: set 0."
            )
        super().__init__(settings, environment)

    def _reward(self, action: Tensor, result: GoalStep, now: Tensor, coming: Tensor) -> Tensor:
        """Return -1 where an intervention begins in the next step, else 0."""
        # after a failure an intervention would never end
        return torch.where(failed(result), self._for_ever, -(coming & ~now & ~result.done).float())


ALGORITHM = RLIF
