"""HIL-SERL from images: a frozen encoder, a success classifier on its features, and human interventions.

See :mod:`rlstack.training.algorithms.hil_serl`, :mod:`rlstack.training.algorithms.rlpd_camera` and
:mod:`rlstack.training.reward_classifier`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from rlstack.tasks.core.learning_environment import ScriptedEnvironment
from rlstack.training.algorithm import IterationResult
from rlstack.training.algorithms.hil_serl import HILSERL, HILSERLSettings
from rlstack.training.algorithms.rlpd_camera import RLPDCamera, RLPDCameraSettings
from rlstack.training.reward_classifier import ClassifiedEnvironment, RewardClassifierSettings


@dataclass(frozen=True, kw_only=True)
class HILSERLCameraSettings(HILSERLSettings, RLPDCameraSettings):
    """Settings of HIL-SERL from images."""

    judged: bool = True
    """Whether a classifier decides success instead of the task; needs task_settings: ends: false."""
    judge: RewardClassifierSettings = field(default_factory=RewardClassifierSettings)
    """The classifier."""


class HILSERLCamera(RLPDCamera, HILSERL):
    """See :class:`rlstack.training.algorithms.hil_serl.HILSERL`.

    Raises:
        UserError: The task has no scripted expert or no cameras, or ends by its own success though a classifier
            decides it.
    """

    Settings = HILSERLCameraSettings
    settings: HILSERLCameraSettings

    def open(self, folder: Path | None) -> None:
        """Load the encoder, fit the classifier on its features, and open the steps in a run's folder."""
        self.load_encoder()
        if isinstance(self.environment, ClassifiedEnvironment) and not self.environment.figures:
            self.environment.learn()
        super().open(folder)

    def begin_as_worker(self, fixed: Any) -> None:
        """Act for a learner elsewhere; see :class:`rlstack.training.rollout_worker.RollsOut`."""
        if isinstance(self.environment, ClassifiedEnvironment):
            self.environment.judge.load_state_dict(fixed["judge"])
        super().begin_as_worker(fixed)

    def iterate(self, done: float) -> IterationResult:
        """Step the robots and learn; raise ``NotFinite`` naming the term that is not finite."""
        result = super().iterate(done)
        figures = self.environment.figures if isinstance(self.environment, ClassifiedEnvironment) else {}
        judged = {f"judge/{name}": figure for name, figure in figures.items()}
        return replace(result, scalars={**result.scalars, **judged})

    def _fixed(self) -> dict[str, Any]:
        fixed = super()._fixed()
        if isinstance(self.environment, ClassifiedEnvironment):
            fixed["judge"] = self.environment.judge.state_dict()
        return fixed

    def _with_reward(self, environment: ScriptedEnvironment, settings: RLPDCameraSettings) -> ScriptedEnvironment:
        assert isinstance(settings, HILSERLCameraSettings)
        return (
            ClassifiedEnvironment(environment, settings.judge, torch.initial_seed()) if settings.judged else environment
        )


ALGORITHM = HILSERLCamera
