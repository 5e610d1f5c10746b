"""Rejection sampling for vision-language-action policies: clone one's own episodes that succeeded.

The plain baseline of reinforcement fine-tuning, also called filtered behaviour cloning.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import IterationResult, check_finite
from rlstack.training.language.actor import Seen
from rlstack.training.language.rollouts import totals
from rlstack.training.language.sampled_trials import SampledSettings, SampledTrials
from rlstack.training.language.supervised import Lesson, Supervised, SupervisedSettings


@dataclass(frozen=True, kw_only=True)
class VLARejectionSettings(SupervisedSettings, SampledSettings):
    """Settings of rejection sampling."""

    learning_rate: float = value(1e-4, above=0.0)
    """Largest learning rate; it decays to 0 along a cosine."""
    temperature: float = value(1.7, above=0.0)
    """Of the samples; above 1 they explore more."""
    kept: int = value(10, at_least=1)
    """Iterations whose successful episodes are cloned."""
    epochs: float = value(2.0, above=0.0)
    """Times that each new chunk is cloned, on average."""


class VLARejection(SampledTrials):
    """Learns from its own successful episodes; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no instruction or images, or its rewards are not sparse.
    """

    Settings = VLARejectionSettings
    changeable = ("learning_rate",)

    def __init__(self, settings: VLARejectionSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment, "vla_rejection", settings.temperature)
        self.settings = settings
        self._longest = -(-environment.task.steps // settings.chunk)
        self.steps_per_iteration = environment.count * environment.task.steps
        self.learner = Supervised(settings, self.policy, self.generator)
        self._good: deque[tuple[Seen, Tensor, Tensor]] = deque(maxlen=settings.kept)
        environment.autoreset = False

    def iterate(self, done: float) -> IterationResult:
        """Roll out, and clone what succeeded; raise ``NotFinite`` naming the term that is not finite."""
        self.load_pretrained()
        settings = self.settings
        chunks = self.trials.collect(self._longest, alike=1)
        counts = chunks.inside[..., 0].bool() & chunks.success.any(dim=0)
        index = counts.flatten().nonzero().flatten()
        scalars = self.worker_figures()
        if len(index):
            flat = chunks.flat()
            self._good.append((flat["seen"].take(index), flat["action"][index], flat["inside"][index]))
            drawn = self._lessons()
            updates = max(1, round(settings.epochs * len(index) / (settings.batch * settings.accumulated)))
            losses = [self.learner.update(drawn, done)["actions"] for _ in range(updates)]
            scalars["loss/actions"] = torch.stack(losses).mean().item()
        check_finite(scalars, "The scalar '{}' is not finite")
        won = totals([chunks])
        scalars |= {f"train/{name}": share for name, share in won.items() if name != "lost"}
        per_s = self.environment.task.rate_hz / self.environment.task.steps
        return IterationResult(float(chunks.reward.sum(dim=0).mean()) * per_s, won["lost"], scalars)

    def _lessons(self) -> Iterator[Lesson]:
        """Yield random chunks of the kept episodes."""
        seen = Seen(*(torch.cat(parts) for parts in zip(*(one[0] for one in self._good))))
        action, inside = (torch.cat(parts) for parts in zip(*(one[1:] for one in self._good)))
        while True:
            some = torch.randint(len(action), (self.settings.batch,), generator=self.generator)
            yield Lesson(seen.take(some), action[some], inside[some])

    def change(self, settings: VLARejectionSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = self.learner.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser, kept episodes, environment and random state."""
        kept = [(tuple(seen), action, inside) for seen, action, inside in self._good]
        return {**super().state_dict(), "learner": copy.deepcopy(self.learner.state_dict()), "kept": kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.learner.load_state_dict(state["learner"])
        self._good.clear()
        self._good.extend((Seen(*seen), action, inside) for seen, action, inside in state["kept"])


ALGORITHM = VLARejection
