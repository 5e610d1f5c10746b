"""DSRL for vision-language-action policies: a frozen flow is steered by the noise that it begins with.

Soft actor-critic learns which noise to choose, a step for each chunk of actions, and the policy's weights stay as they
are: diffusion steering, arXiv 2506.15799 (there DSRL-SAC).
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.data.replay import ReplayBuffer, ReplaySpec, fields
from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment, failed
from rlstack.training.algorithm import Actor, IterationResult, check_finite, check_observation
from rlstack.training.hindsight_replay import REPLAY, ReplaySampler, dealt
from rlstack.training.language.fine_tuning import FineTuning, FineTuningSettings
from rlstack.training.language.flow import Flow
from rlstack.training.language.heads import HeadName
from rlstack.training.language.rollouts import reward_of
from rlstack.training.language.steering import SteeredActor, seen_by_steering, steered
from rlstack.training.soft_actor_critic import CHANGEABLE, SoftActorCriticLearner, SoftActorCriticSettings

_AT_ONCE = 16
"""Batches sampled together, which costs little more than one."""


@dataclass(frozen=True, kw_only=True)
class VLADSRLSettings(SoftActorCriticSettings, FineTuningSettings):
    """Settings of steering a frozen flow; ``gamma`` is for each chunk."""

    head: HeadName = "flow"
    """A flow: others have no noise to choose."""
    reach: float = value(1.5, above=0.0)
    """Largest noise of each axis, in standard deviations of what the flow was trained to begin with."""
    each_step: bool = False
    """Whether each planned step has noise of its own, in place of one noise for all steps of a chunk."""
    rollout: int = value(4, at_least=1)
    """Chunks of each robot in an iteration."""
    updates: float = value(1.0, above=0.0)
    """Updates for each chunk of each robot."""
    warm_up: int = value(1000, at_least=0)
    """Chunks of all robots with the flow's own noise before learning begins."""
    capacity: int = value(100_000, at_least=1000)
    """Most stored chunks."""


class VLADSRL(FineTuning):
    """Learns to steer a policy by its noise; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no instruction or images, its rewards are not sparse, or the policy is no flow.
    """

    Settings = VLADSRLSettings
    changeable = (*CHANGEABLE, "updates")
    heads = ("flow",)

    def __init__(self, settings: VLADSRLSettings, environment: LearningEnvironment) -> None:
        super().__init__(settings, environment, "vla_dsrl", 1.0)
        if not isinstance(self.policy.head, Flow):
            raise UserError(
                f"algorithm_settings: head: {settings.head} is not allowed with vla_dsrl, which steers a policy by the"
                " noise that it begins with: go on from a run of vla_sft whose head is flow."
            )
        self.settings = settings
        self.policy.requires_grad_(False)
        self.steps_per_iteration = settings.rollout * settings.chunk * environment.count
        observed = seen_by_steering(self.policy, *self._seen(torch.zeros(1, environment.pipeline.size)))
        noise = self.policy.actions * (settings.chunk if settings.each_step else 1)
        self.learner = SoftActorCriticLearner(settings, observed.shape[1], noise, self.generator)
        self._buffer: ReplayBuffer | None = None
        self._sampler: ReplaySampler | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._drawn: dict[str, Any] | None = None
        """Replay state of a resumed run, until it is opened."""
        self._chunks, self._owed = 0, 0.0

    def open(self, folder: Path | None) -> None:
        """Load the policy to steer, unless resuming, and open the chunks in a run's folder; None: a temporary one."""
        super().open(folder)
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="rlstack-replay-")
            folder = Path(self._temporary.name)
        seen = fields(observation=((self.learner.columns,), "float32"))
        made = fields(action=((self.learner.actions,), "float32"), reward=((), "float32"), goes_on=((), "float32"))
        spec = ReplaySpec(seen, made, self.settings.capacity, self.environment.count)
        self._buffer = ReplayBuffer(folder / REPLAY, spec)
        self._sampler = ReplaySampler(self._buffer, torch.initial_seed() % 2**32)
        if self._drawn is not None:
            self._sampler.load_state_dict(self._drawn)

    def iterate(self, done: float) -> IterationResult:
        """Steer the robots and learn; raise ``NotFinite`` naming the term that is not finite."""
        if self._buffer is None:
            self.open(None)
        assert self._buffer is not None and self._sampler is not None
        environment, settings, count = self.environment, self.settings, self.environment.count
        if self.rollouts.observation is None:
            self.rollouts.begin()
        assert self.rollouts.observation is not None
        features, observed = self._observed(self.rollouts.observation)
        self._begin(observed, np.arange(count))
        sums = {name: 0.0 for name in ("earned", "ended", "won", "lost")}
        logged: dict[str, Tensor] = {}
        for _ in range(settings.rollout):
            chosen = self._chosen(observed)
            with torch.no_grad():
                planned = steered(self.policy, features, chosen, settings.reach, settings.each_step)
                result = environment.chunk_step(planned)
            check_observation(result.actor, environment.pipeline.table(), "The observation term '{}' is not finite")
            self.rollouts.observation = result.actor
            features, observed = self._observed(result.actor)
            earned = reward_of(result, environment.task.steps)
            check_finite({"success": earned}, "The reward term '{}' is not finite")
            # an episode's end is final, also by time, as for the other algorithms of this family
            made = {"action": chosen, "reward": earned, "goes_on": (~result.done).float()}
            rows = {name: tensor.numpy().astype(np.float32) for name, tensor in made.items()}
            self._buffer.add_lanes(rows, {"observation": observed.numpy()}, np.arange(count))
            self._begin(observed, np.flatnonzero(result.done.numpy()))
            self._chunks += count
            found = (earned.mean(), result.done.sum(), (result.done & result.success).sum(), failed(result).sum())
            sums = {name: sums[name] + float(one) for name, one in zip(sums, found)}
            if self._chunks > settings.warm_up:
                self._owed += settings.updates * count
                logged |= self._learn()
        losses = self.learner.check(logged)
        ended = max(sums["ended"], 1.0)
        scalars = {"train/success": sums["won"] / ended, "train/episodes": sums["ended"]}
        scalars |= {f"loss/{name}": loss for name, loss in losses.items()}
        per_s = environment.task.rate_hz / (settings.chunk * settings.rollout)
        return IterationResult(sums["earned"] * per_s, sums["lost"] / ended, scalars)

    def actor(self) -> Actor:
        """Return a copy of the current actor: the frozen policy and what steers it."""
        fused = SteeredActor(self.policy, self.learner.actor, self.settings.reach, self.settings.each_step)
        return fused.copied().eval().requires_grad_(False)

    def _seen(self, observation: Tensor) -> tuple[Any, Tensor]:
        """Return what the frozen network gets of observations (batch, columns), and its features."""
        with torch.no_grad():
            seen = self.policy.seen(observation)
            return seen, self.policy.features(seen)

    def _observed(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the frozen network's features, and what the steering network sees, of observations."""
        seen, features = self._seen(observation)
        return features, seen_by_steering(self.policy, seen, features)

    def _chosen(self, observed: Tensor) -> Tensor:
        """Return noise (N, columns), -1 to 1."""
        if self._chunks >= self.settings.warm_up:
            return self.learner.act(observed)
        drawn = torch.randn(len(observed), self.learner.actions, generator=self.generator)
        return (drawn / self.settings.reach).clamp(-1.0, 1.0)

    def _begin(self, observed: Tensor, robots: Any) -> None:
        """Begin episodes of some robots with what the steering network sees of all."""
        assert self._buffer is not None
        if len(robots):
            self._buffer.begin_lanes({"observation": observed.numpy()[robots]}, robots)

    def _learn(self) -> dict[str, Tensor]:
        """Make the updates that are owed; return the last one's scalars."""
        assert self._sampler is not None
        logged: dict[str, Tensor] = {}
        while self._owed >= 1.0:
            count = min(int(self._owed), _AT_ONCE)
            self._owed -= count
            for batch in dealt(self._sampler.sample(count * self.settings.batch), count):
                logged |= self.learner.update_critics(batch) | self.learner.update_actor(batch)
        return logged

    def change(self, settings: VLADSRLSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = settings
        self.learner.change(settings)

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; the chunks stay in their files."""
        held = None if self._sampler is None else self._sampler.state_dict()
        parts = {"learner": self.learner.state_dict(), "experience": copy.deepcopy(held)}
        return {**super().state_dict(), **parts, "chunks": self._chunks, "owed": self._owed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.learner.load_state_dict(state["learner"])
        self._chunks, self._owed, self._drawn = state["chunks"], state["owed"], state["experience"]


ALGORITHM = VLADSRL
