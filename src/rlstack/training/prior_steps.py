"""Soft actor-critic that learns from its own steps and from others, which it was given before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithms.sac import SAC, SACSettings
from rlstack.training.demonstrations import check_recording, open_recording
from rlstack.training.hindsight_replay import HindsightReplay
from rlstack.training.mixed_replay import MixedReplay


@dataclass(frozen=True, kw_only=True)
class RecordingSettings(SACSettings):
    """Settings of algorithms that learn from a robot's recordings, and from steps of their own."""

    dataset: str = ""
    """Folder of the LeRobot dataset that was recorded on the robot; required."""
    episodes: int = value(1_000_000, at_least=1)
    """Most recorded episodes: the first ones, however they ended."""
    prior_share: float = value(0.5, above=0.0, at_most=0.9)
    """Share of each batch that are recorded steps."""
    critics: int = value(10, at_least=1)
    layer_norm: bool = True
    updates: float = value(2.0, above=0.0)
    entropy_backup: bool = False


class PriorSteps(SAC):
    """See :class:`rlstack.training.algorithms.sac.SAC`; a fixed share of each batch are prior steps."""

    changeable: ClassVar[tuple[str, ...]] = (*SAC.changeable, "prior_share")

    def __init__(self, settings: Any, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment)
        self.replay: MixedReplay | None = None
        self._pretrained = False
        self._replay_state: dict[str, Any] | None = None

    def _prepare(self, folder: Path | None) -> None:
        """Open own and prior steps in a run's folder; existing ones are reused."""
        super()._prepare(folder)
        self.replay = self._mixed_replay(self._open_prior(folder, torch.initial_seed() % 2**32), folder)
        if self._replay_state is not None:
            self.replay.load_state_dict(self._replay_state)
        if not self._pretrained:
            self._pretrain()
        self._pretrained = True

    def change(self, settings: Any) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        super().change(settings)
        if self.replay is not None:
            self.replay.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; replayed steps stay in their files."""
        replay = None if self.replay is None else self.replay.state_dict()
        return {**super().state_dict(), "pretrained": self._pretrained, "lessons": replay}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._pretrained, self._replay_state = state["pretrained"], state["lessons"]

    def start_from(self, actor: Mapping[str, Tensor], state: Mapping[str, Any] | None) -> None:
        """Take over the networks of a run's end, without learning from the prior steps first."""
        super().start_from(actor, state)
        self._pretrained = True

    @abstractmethod
    def _open_prior(self, folder: Path | None, seed: int) -> HindsightReplay:
        """Return the prior steps in a run's folder; None: in a temporary one."""

    def _pretrain(self) -> None:
        """Learn from the prior steps alone, before the first step."""
        return None

    def _batches(self, count: int) -> list[dict[str, Tensor]]:
        assert self.replay is not None
        return self.replay.batches(count)

    def _mixed_replay(self, prior: HindsightReplay, folder: Path | None) -> MixedReplay:
        assert self._experience is not None
        return MixedReplay(self.settings, self._experience, prior)


class RecordedSteps(PriorSteps):
    """The prior steps are all that a robot's recordings hold, failures too.

    Raises:
        UserError: There is no dataset, or it does not fit the task.
    """

    settings: RecordingSettings

    def __init__(self, settings: RecordingSettings, environment: LearningEnvironment) -> None:
        if settings.apart:
            raise UserError(
                "algorithm_settings: apart: true is not allowed: what this algorithm learns beside the policy, a"
                " separate learner does not: set false."
            )
        check_recording(environment, settings.dataset)
        super().__init__(settings, environment)

    def _open_prior(self, folder: Path | None, seed: int) -> HindsightReplay:
        settings = self.settings
        prior = open_recording(self.environment, folder, settings.dataset, settings.episodes, seed)
        self._measure(prior.all_steps())
        return prior

    @abstractmethod
    def _measure(self, recorded: dict[str, Tensor]) -> None:
        """Take scales from all recorded steps."""
