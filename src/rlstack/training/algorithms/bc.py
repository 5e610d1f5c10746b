"""Behaviour cloning of demonstrations with action chunks.

Zhao et al., "Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware" (ACT, arXiv 2304.13705): the network
learns a chunk of actions for each observation, by absolute error, and execution averages overlapping chunks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.action_chunking import ChunkActor
from rlstack.training.algorithm import Actor, IterationResult, check_finite, check_widths, cosine_decay
from rlstack.training.demonstrations import DemonstrationSettings, open_demonstrations, scripted
from rlstack.training.hindsight_replay import HindsightReplay, episode_bounds
from rlstack.training.optimisers import AdamW

_UPDATES = 50
"""Updates in an iteration."""


@dataclass(frozen=True, kw_only=True)
class CloneSettings:
    """Settings of the cloned network and its training."""

    hidden: tuple[int, ...] = value((256, 256), at_least=1)
    """Widths of the hidden layers."""
    chunk: int = value(10, at_least=1)
    """Number of planned actions."""
    executed: int = value(0, at_least=0)
    """Planned actions executed before the next plan; 0: plan at each step and average with earlier plans."""
    decay: float = value(0.01, at_least=0.0)
    """When averaging, a plan that is a step older weighs exp(decay) times as much; ACT's m."""
    history: int = value(1, at_least=1)
    """Number of observations as input."""
    learning_rate: float = value(1e-3, above=0.0)
    """Initial learning rate; it decays to 0 along a cosine."""
    weight_decay: float = value(1e-4, at_least=0.0)
    batch: int = value(256, at_least=1)
    """Batch size of an update."""

    def __post_init__(self) -> None:
        check_widths(self, "hidden")
        if self.executed > self.chunk:
            raise ValueError(f"executed: {self.executed} is not allowed: must be at most chunk ({self.chunk}).")


@dataclass(frozen=True, kw_only=True)
class BCSettings(CloneSettings, DemonstrationSettings):
    """Settings of behaviour cloning."""

    demonstrations: int = value(100, at_least=1)


class Cloner:
    """Trains a chunk network on episodes.

    Args:
        settings: Settings of the network.
        columns: Observation columns.
        actions: Number of actions.
        seed: Seed of sampling.
    """

    def __init__(self, settings: CloneSettings, columns: int, actions: int, seed: int) -> None:
        self.settings, self.rng = settings, np.random.default_rng(seed)
        chunk = settings.chunk, settings.executed, settings.decay, settings.history
        self.actor = ChunkActor(columns, actions, settings.hidden, *chunk)
        self._optimiser = AdamW(self.actor.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)

    def update(self, seen: Tensor, done: Tensor, bounds: Tensor, share: float) -> Tensor:
        """Fit the network to a batch of steps once; return the loss.

        Args:
            seen: Observations (steps, columns).
            done: Actions (steps, actions) there.
            bounds: First and last step of each step's episode (steps, 2).
            share: Completed share of the run.
        """
        settings = self.settings
        for group in self._optimiser.param_groups:
            group["lr"] = cosine_decay(settings.learning_rate, 0.0, share)
        drawn = torch.from_numpy(self.rng.integers(0, len(seen), settings.batch))
        first, last = bounds[drawn].unbind(dim=1)
        ahead = drawn[:, None] + torch.arange(settings.chunk)
        back = drawn[:, None] - torch.arange(settings.history - 1, -1, -1)
        planned = self.actor.plan(seen[torch.maximum(back, first[:, None])])
        inside = (ahead <= last[:, None]).float()
        wrong = (planned - done[torch.minimum(ahead, last[:, None])]).abs().mean(dim=-1)
        loss = (wrong * inside).sum() / inside.sum()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser and random state."""
        state = {"actor": self.actor.state_dict(), "optimiser": self._optimiser.state_dict()}
        return copy.deepcopy({**state, "random": self.rng.bit_generator.state})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.actor.load_state_dict(state["actor"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.rng.bit_generator.state = state["random"]


def steps_of(*kept: HindsightReplay) -> tuple[Tensor, Tensor, Tensor]:
    """Return all stored steps: observations, actions, and bounds; see :meth:`Cloner.update`."""
    seen, done, bounds, count = [], [], [], 0
    for experience in kept:
        index = experience.buffer.indices()
        if not len(index):
            continue
        held = experience.buffer.gather(index)
        seen.append(held["observation"])
        done.append(held["action"])
        bounds.append(count + episode_bounds(experience.buffer, index))
        count += len(index)
    return tuple(torch.from_numpy(np.concatenate(arrays)) for arrays in (seen, done, bounds))  # type: ignore[return-value]


def checked_losses(losses: Mapping[str, float]) -> dict[str, float]:
    """Return an iteration's mean losses by their name in TensorBoard.

    Raises:
        NotFinite: One of them is not finite.
    """
    check_finite(losses, "The mean of the loss '{}' in an iteration is not finite")
    return {f"loss/{name}": loss for name, loss in losses.items()}


class BC:
    """Learns from demonstrations alone; see :class:`rlstack.training.algorithm.Algorithm`.

    Its steps count samples of demonstrations: the robots do not move.

    Raises:
        UserError: The task has no scripted expert.
    """

    Settings = BCSettings
    needs_gradients = False
    changeable: ClassVar[tuple[str, ...]] = ("learning_rate",)

    def __init__(self, settings: BCSettings, environment: LearningEnvironment) -> None:
        self.settings, self.environment = settings, scripted(environment, "bc")
        self.steps_per_iteration = _UPDATES * settings.batch
        pipeline = environment.pipeline
        self._seed = torch.initial_seed() % 2**32
        self.cloner = Cloner(settings, pipeline.size, pipeline.action_size, self._seed)
        self._steps: tuple[Tensor, Tensor, Tensor] | None = None
        self._begun = False

    def open(self, folder: Path | None) -> None:
        """Open the demonstrations in a run's folder; existing ones are reused."""
        settings = self.settings
        kept = open_demonstrations(
            self.environment, folder, settings.demonstrations, settings.dataset, self._seed, earned=False
        )
        self._steps = steps_of(kept)
        kept.close()
        if not self._begun:
            self.cloner.actor.normalise_by(self._steps[0])

    def iterate(self, done: float) -> IterationResult:
        """Learn from demonstrations; raise ``NotFinite`` naming the term that is not finite."""
        if self._steps is None:
            self.open(None)
        assert self._steps is not None
        self._begun = True
        loss = torch.stack([self.cloner.update(*self._steps, done) for _ in range(_UPDATES)]).mean().item()
        return IterationResult(0.0, 0.0, checked_losses({"clone": loss}))

    def actor(self) -> Actor:
        """Return a copy of the current actor."""
        return copy.deepcopy(self.cloner.actor).eval().requires_grad_(False)

    def change(self, settings: Any) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = self.cloner.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser and random state; the demonstrations stay in their files."""
        return {"cloner": self.cloner.state_dict(), "begun": self._begun}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.cloner.load_state_dict(state["cloner"])
        self._begun = state["begun"]


ALGORITHM = BC
