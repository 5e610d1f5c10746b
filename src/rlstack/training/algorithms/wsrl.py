"""WSRL: warm start from demonstrations, then learn without them.

Zhou et al., "Efficient Online Reinforcement Learning Fine-Tuning Need Not Retain Offline Data" (arXiv 2412.07762):
policy and critics are pretrained offline by calibrated Q-learning (Cal-QL, arXiv 2303.05479), the frozen policy fills
the buffer for some steps, and then soft actor-critic with many updates learns from its own experience.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment, ScriptedEnvironment
from rlstack.training.algorithms.sac import SAC, SACSettings
from rlstack.training.demonstrations import (
    DemonstrationSettings,
    check_recording,
    open_demonstrations,
    open_recording,
    scripted,
)
from rlstack.training.hindsight_replay import HindsightReplay

ALL = 1_000_000
"""Most recorded episodes."""


@dataclass(frozen=True, kw_only=True)
class WSRLSettings(SACSettings, DemonstrationSettings):
    """Settings of WSRL; it learns from demonstrations only before the first step."""

    failures: bool = False
    """Whether all that the ``dataset`` holds is learned from, failed episodes too, as in the paper; ``demonstrations``
    then does not count. Set ``cloning`` to 0 beside it, or the failures are cloned."""
    pretraining: int = value(2000, at_least=0)
    """Updates of policy and critics before the first step."""
    conservative: float = value(1.0, at_least=0.0)
    """Weight of the conservative loss in these updates; Cal-QL's alpha."""
    cloning: float = value(1.0, at_least=0.0)
    """Weight of the behaviour-cloning loss in these updates; 0 in the paper."""
    warm_up: int = value(5000, at_least=0)
    """Steps of all robots with the pretrained policy before learning continues; 5,000 in the paper."""
    critics: int = value(10, at_least=1)
    layer_norm: bool = True
    updates: float = value(2.0, above=0.0)
    entropy_backup: bool = False


class WSRL(SAC):
    """See :class:`rlstack.training.algorithms.sac.SAC`.

    Raises:
        UserError: There is no dataset, and the task has no scripted expert, or it seldom succeeds.
    """

    Settings = WSRLSettings
    settings: WSRLSettings

    def __init__(self, settings: WSRLSettings, environment: LearningEnvironment) -> None:
        if settings.failures:
            check_recording(environment, settings.dataset)
        elif not settings.dataset:
            environment = scripted(environment, type(self).__name__.lower())
        super().__init__(settings, environment)
        self._pretrained = False

    def _prepare(self, folder: Path | None) -> None:
        """Open the steps in a run's folder; pretrain, unless that is done."""
        super()._prepare(folder)
        settings = self.settings
        if not self._pretrained:
            prior = self._open_prior(folder, torch.initial_seed() % 2**32)
            returns = earned(prior, settings.gamma)
            for _ in range(settings.pretraining):
                batch = prior.sample(settings.batch)
                batch = {**batch, "return": returns[batch["index"]], "demonstrated": torch.ones(settings.batch)}
                weight = settings.conservative
                self.learner.update_critics(batch, self.learner.conservative(batch, weight) if weight else None)
                self.learner.update_actor(batch, settings.cloning)
            prior.close()
        self._pretrained = True

    def _open_prior(self, folder: Path | None, seed: int) -> HindsightReplay:
        settings, environment = self.settings, cast(ScriptedEnvironment, self.environment)
        if settings.failures:
            return open_recording(environment, folder, settings.dataset, ALL, seed)
        return open_demonstrations(environment, folder, settings.demonstrations, settings.dataset, seed)

    def start_from(self, actor: Mapping[str, Tensor], state: Mapping[str, Any] | None) -> None:
        """Take over the networks of a run's end, without pretraining."""
        super().start_from(actor, state)
        self._pretrained = True

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; replayed steps stay in their files."""
        return {**super().state_dict(), "pretrained": self._pretrained}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._pretrained = state["pretrained"]

    def _action(self, observation: Tensor) -> Tensor:
        return self.learner.act(observation)


def earned(prior: HindsightReplay, gamma: float) -> Tensor:
    """Return the discounted return (steps,) from each step to its episode's end, by the steps' indices.

    Args:
        prior: Whole episodes in one lane, none of them overwritten.
        gamma: Discount per step. An episode that did not terminate repeats its last step for ever.
    """
    index = prior.buffer.indices()
    held = prior.buffer.gather(index)
    _, last = prior.buffer.bounds(index)
    returns = np.zeros(int(last[-1]) + 1, dtype=np.float32)
    for step, end, reward, goes_on in zip(index[::-1], last[::-1], held["reward"][::-1], held["goes_on"][::-1]):
        after = returns[step + 1] if step + 1 < end else reward / (1.0 - gamma) if gamma < 1.0 else 0.0
        returns[step] = reward + gamma * goes_on * after
    return torch.from_numpy(returns)


ALGORITHM = WSRL
