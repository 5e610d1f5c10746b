"""RLPD: soft actor-critic on equal parts of demonstrations and own experience.

Ball et al., "Efficient Online Reinforcement Learning with Offline Data" (arXiv 2302.02948): half of each batch comes
from demonstrations, critics are an ensemble with layer normalisation, and the update-to-data ratio is high.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment, ScriptedEnvironment
from rlstack.training.algorithms.sac import SACSettings
from rlstack.training.demonstrations import DEMONSTRATIONS, DemonstrationSettings, open_demonstrations, scripted
from rlstack.training.hindsight_replay import REPLAY, HindsightReplay
from rlstack.training.prior_steps import PriorSteps


@dataclass(frozen=True, kw_only=True)
class RLPDSettings(SACSettings, DemonstrationSettings):
    """Settings of RLPD."""

    prior_share: float = value(0.5, above=0.0, at_most=0.9)
    """Share of each batch from demonstrations and corrections: half in the paper. Fewer leave more for steps of the
    policy's own, whose hindsight teaches more once it succeeds at times."""
    critics: int = value(10, at_least=1)
    layer_norm: bool = True
    updates: float = value(2.0, above=0.0)
    entropy_backup: bool = False
    """Whether targets include the entropy; the paper omits it for sparse rewards."""
    cloning: float = value(0.0, at_least=0.0)
    """Initial weight of the behaviour-cloning loss; it changes linearly to ``cloning_end``. 0 in the paper."""
    cloning_end: float = value(0.0, at_least=0.0)
    """Weight of the behaviour-cloning loss at the end of the run."""
    pretraining: int = value(0, at_least=0)
    """Behaviour-cloning updates before the first step; if any, the policy also acts during the warm-up."""

    def cloning_at(self, done: float) -> float:
        """Return the weight of the behaviour-cloning loss after a share of the run, 0 to 1."""
        return self.cloning + done * (self.cloning_end - self.cloning)


class RLPD(PriorSteps):
    """See :class:`rlstack.training.algorithms.sac.SAC`.

    Raises:
        UserError: The task has no scripted expert, or it seldom succeeds.
    """

    Settings = RLPDSettings
    settings: RLPDSettings
    environment: ScriptedEnvironment
    changeable = (*PriorSteps.changeable, "cloning", "cloning_end")
    sources: ClassVar[tuple[str, ...]] = (REPLAY, DEMONSTRATIONS)

    def __init__(self, settings: RLPDSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, scripted(environment, type(self).__name__.lower()))

    def _action(self, observation: Tensor) -> Tensor:
        return self.learner.act(observation) if self.settings.pretraining else super()._action(observation)

    def _open_prior(self, folder: Path | None, seed: int) -> HindsightReplay:
        settings = self.settings
        return open_demonstrations(
            self.environment, folder, settings.demonstrations, settings.dataset, seed, not self.unrewarded
        )

    def _pretrain(self) -> None:
        assert self.replay is not None
        for _ in range(self.settings.pretraining):
            self.learner.clone(self.replay.shown(self.settings.batch))


ALGORITHM = RLPD
