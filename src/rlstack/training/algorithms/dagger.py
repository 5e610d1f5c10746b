"""HG-DAgger: clone demonstrations and interventions.

Kelly et al., "HG-DAgger: Interactive Imitation Learning with Human Experts" (arXiv 1810.02890): the policy acts until
an expert takes over, whose actions are added to the demonstrations. It is RLIF's baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import IterationResult, RolloutTotals
from rlstack.training.algorithms.bc import BC, BCSettings, checked_losses, steps_of
from rlstack.training.demonstrations import open_demonstrations
from rlstack.training.hindsight_replay import HindsightReplay, InterventionReplay
from rlstack.training.intervention_strategies import Intervener, IntervenerSettings, intervener_of


@dataclass(frozen=True, kw_only=True)
class DAggerSettings(BCSettings):
    """Settings of HG-DAgger."""

    intervener: IntervenerSettings = field(default_factory=IntervenerSettings)
    demonstrations: int = value(20, at_least=1)
    chunk: int = value(1, at_least=1)
    learning_rate: float = value(3e-4, above=0.0)
    """Initial learning rate; it decays to 0 along a cosine."""
    pretraining: int = value(1000, at_least=0)
    """Updates on demonstrations alone, before the first step."""
    rollout: int = value(8, at_least=1)
    """Steps per robot in an iteration."""
    updates: float = value(1.0, above=0.0)
    """Updates per step of each robot."""
    capacity: int = value(1_000_000, at_least=1000)
    """Most stored steps of interventions."""


class DAgger(BC):
    """See :class:`rlstack.training.algorithms.bc.BC`; here the steps are those of the moving robots."""

    Settings = DAggerSettings
    changeable = (*BC.changeable, "updates")
    settings: DAggerSettings

    def __init__(self, settings: DAggerSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment)
        self.steps_per_iteration = settings.rollout * environment.count
        self.intervener: Intervener = intervener_of(settings.intervener, self.environment, self._seed)
        self._prior: HindsightReplay | None = None
        self._interventions: InterventionReplay | None = None
        self._observation: Tensor | None = None
        self._begins = torch.ones(environment.count, dtype=torch.bool)
        """Robots whose episode begins with the coming step."""
        self._memory: dict[str, Tensor] = {}
        self._owed = 0.0

    def open(self, folder: Path | None) -> None:
        """Open demonstrations and interventions in a run's folder."""
        settings = self.settings
        self._prior = open_demonstrations(
            self.environment, folder, settings.demonstrations, settings.dataset, self._seed, earned=False
        )
        self._interventions = InterventionReplay(self.environment, settings.capacity, folder, self._seed)
        if not self._begun:
            self._steps = steps_of(self._prior)
            self.cloner.actor.normalise_by(self._steps[0])
            for _ in range(settings.pretraining):
                self.cloner.update(*self._steps, 0.0)
        self._begun = True

    def iterate(self, done: float) -> IterationResult:
        """Step the robots and learn; raise ``NotFinite`` naming the term that is not finite."""
        if self._prior is None or self._interventions is None:
            self.open(None)
        assert self._prior is not None and self._interventions is not None
        environment, settings, count = self.environment, self.settings, self.environment.count
        environment.set_progress(done)
        if self._observation is None:
            self._observation = environment.observe()[0].clone()
            self._memory = {n: torch.zeros(count, *shape) for n, shape in self.cloner.actor.memory.items()}
            self._begins = torch.ones(count, dtype=torch.bool)
        totals, earned, taken = RolloutTotals(), torch.zeros(()), torch.zeros(())
        for _ in range(settings.rollout):
            with torch.no_grad():
                proposed, self._memory = self.cloner.actor(self._observation, self._memory)
            intervention = self.intervener.decide(self._observation, proposed.clamp(-1.0, 1.0), self._begins)
            achieved = environment.achieved_goal()
            result = environment.step(intervention.action)
            self._interventions.keep(intervention.now, self._observation, achieved, intervention.action, result)
            self._begins, self._observation = result.done.clone(), result.actor.clone()
            for tensor in self._memory.values():
                tensor[result.done] = 0.0
            earned, taken = earned + result.reward.mean(), taken + intervention.now.float().mean()
            totals.add(result)
        steps = steps_of(self._prior, self._interventions)
        self._owed += settings.updates * self.steps_per_iteration
        losses = []
        while self._owed >= 1.0:
            self._owed -= 1.0
            losses.append(self.cloner.update(*steps, done))
        loss = float(torch.stack(losses).mean()) if losses else 0.0
        scalars = {"train/success": totals.success, "train/intervened": float(taken) / settings.rollout}
        reward_per_s = float(earned) * environment.task.rate_hz / settings.rollout
        return IterationResult(reward_per_s, totals.lost_share, {**scalars, **checked_losses({"clone": loss})})

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser, environment and random state; replayed steps stay in their files."""
        state = {"environment": self.environment.state_dict(), "intervener": self.intervener.state_dict()}
        return {**super().state_dict(), **state, "owed": self._owed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.environment.load_state_dict(state["environment"])
        self.intervener.load_state_dict(state["intervener"])
        self._owed, self._observation = state["owed"], None


ALGORITHM = DAgger
