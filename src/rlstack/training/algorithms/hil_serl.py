"""HIL-SERL: RLPD with human interventions.

Luo et al., "Precise and Dexterous Robotic Manipulation via Human-in-the-Loop Reinforcement Learning" (arXiv
2410.21845): an intervention replaces the action; all steps are experience, and those with an intervention are also
demonstrations; reversing the gripper has a penalty. Theirs has a separate critic for the discrete gripper; here it is
one of the actions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import GoalStep, LearningEnvironment
from rlstack.training.algorithms.rlpd import RLPD, RLPDSettings
from rlstack.training.demonstrations import DEMONSTRATIONS
from rlstack.training.hindsight_replay import INTERVENTIONS, REPLAY, HindsightReplay, InterventionReplay
from rlstack.training.intervention_strategies import (
    Intervener,
    IntervenerSettings,
    Intervention,
    intervener_of,
    needs_human,
)
from rlstack.training.mixed_replay import MixedReplay

_GRIPPER = "gripper"
"""Name of the action that closes the gripper; see :data:`rlstack.tasks.manipulator.trials.AXES`."""


@dataclass(frozen=True, kw_only=True)
class HILSERLSettings(RLPDSettings):
    """Settings of HIL-SERL."""

    intervener: IntervenerSettings = field(default_factory=IntervenerSettings)
    demonstrations: int = value(20, at_least=0)
    """As in RLPD; with 0, interventions are the only demonstrations."""
    gripper_penalty: float = value(0.02, at_least=0.0)
    """Penalty of reversing the gripper's command."""
    hindsight: float = value(0.0, at_least=0.0, at_most=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.demonstrations and (self.cloning or self.cloning_end or self.pretraining):
            raise ValueError("demonstrations: 0 is not allowed with cloning or pretraining: there is nothing to clone.")
        if self.workers and needs_human(self):
            raise ValueError(
                f"workers: {self.workers} is not allowed with intervener.kind: hand: a person sees one robot."
            )


class HILSERL(RLPD):
    """See :class:`rlstack.training.algorithms.rlpd.RLPD`."""

    Settings = HILSERLSettings
    fine_tunes = ""
    sources = (REPLAY, DEMONSTRATIONS, INTERVENTIONS)
    settings: HILSERLSettings

    def __init__(self, settings: HILSERLSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment)
        self.intervener: Intervener = intervener_of(settings.intervener, self.environment, torch.initial_seed() % 2**63)
        self.interventions: InterventionReplay | None = None
        self._next: Intervention | None = None
        self._achieved = self.environment.achieved_goal()
        axes = getattr(environment.pipeline, "axes", ())
        self._grip = axes.index(_GRIPPER) if _GRIPPER in axes else None
        self._gripped = torch.zeros(environment.count)

    def _end_episodes(self) -> None:
        super()._end_episodes()
        if self._observation is None:
            self._next = None

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; replayed steps stay in their files."""
        return {**super().state_dict(), "intervener": self.intervener.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.intervener.load_state_dict(state["intervener"])
        self._next = None

    def _action(self, observation: Tensor) -> Tensor:
        if self._next is None:
            self._next = self._decided(observation, torch.ones(self.environment.count, dtype=torch.bool))
        self._achieved = self.environment.achieved_goal()
        return self._next.action

    def _decided(self, observation: Tensor, begins: Tensor) -> Intervention:
        return self.intervener.decide(observation, super()._action(observation), begins)

    def _keep(self, action: Tensor, result: GoalStep) -> None:
        assert self._next is not None and self._observation is not None and self.interventions is not None
        now, before = self._next.now & ~self._held, self._observation
        # decide the next step before this one's reward, on which RLIF's depends
        self._next = self._decided(result.actor, result.done)
        result = dataclasses.replace(result, reward=self._reward(action, result, now, self._next.now))
        self.interventions.keep(now, before, self._achieved, action, result)
        self._figures["intervened"] = self._figures.get("intervened", 0.0) + float(now.float().mean())
        super()._keep(action, result)

    def begin_as_worker(self, fixed: Any) -> None:
        """Act for a learner elsewhere; see :class:`rlstack.training.rollout_worker.RollsOut`."""
        super().begin_as_worker(fixed)
        capacity = self.settings.capacity
        self.interventions = InterventionReplay(self.environment, capacity, None, 0, True, self._journal)

    def _buffers(self) -> dict[str, HindsightReplay]:
        assert self.interventions is not None
        return {**super()._buffers(), INTERVENTIONS: self.interventions}

    def _reward(self, action: Tensor, result: GoalStep, now: Tensor, coming: Tensor) -> Tensor:
        """Return the reward (N,) of a step with interventions at ``now``, and at ``coming`` in the next one."""
        if self._grip is None or not self.settings.gripper_penalty:
            return result.reward
        grip = action[:, self._grip].sign()
        changed = grip * self._gripped < 0.0
        self._gripped = torch.where(result.done, 0.0, torch.where(grip == 0.0, self._gripped, grip))
        return result.reward - self.settings.gripper_penalty * changed

    def _mixed_replay(self, prior: HindsightReplay, folder: Path | None) -> MixedReplay:
        assert self._experience is not None
        seed = torch.initial_seed() % 2**32
        versioned = bool(self.settings.workers)
        self.interventions = InterventionReplay(self.environment, self.settings.capacity, folder, seed, versioned)
        return MixedReplay(self.settings, self._experience, prior, self.interventions, self.unrewarded)


ALGORITHM = HILSERL
