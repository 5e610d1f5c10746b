"""Trials with sampled actions, from which a policy learns: in the run's process, or by rollout workers side by side.

Workers act at the same time by the same policy, each with its share of the robots, and wait while it learns: what is
learned is the same as in one process, but for the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.language.actor import LanguageActor
from rlstack.training.language.fine_tuning import FineTuning, FineTuningSettings
from rlstack.training.language.rollouts import Chunks, CollectsChunks, beside
from rlstack.training.rollout_fleet import RolloutFleet, check_shares, start_fleet
from rlstack.training.rollout_worker import Order

_WAIT_S = 1.0
"""Time after which workers are looked after that have not answered."""


@dataclass(frozen=True, kw_only=True)
class SampledSettings(FineTuningSettings):
    """Settings of learning from sampled trials."""

    workers: int = value(0, at_least=0)
    """Rollout workers, each a process with its share of the robots and of the run's threads; 0: the run's process moves
    them. With `rlstack train --ray`, actors of a Ray cluster."""


class SharedRollouts:
    """Rolls out a policy in rollout workers, all of whom have it before they begin.

    Args:
        policy: The policy.
        workers: How many there are.
    """

    def __init__(self, policy: LanguageActor, workers: int) -> None:
        self.iterations = 0
        self.fleet: RolloutFleet | None = None
        self._policy, self.workers = policy, workers

    def collect(self, steps: int, alike: int = 0, told_error: float | None = None) -> Chunks:
        """Return the next chunks; see :class:`CollectsChunks`. A worker that died begins its share again."""
        assert self.fleet is not None
        self.iterations += 1
        weights, came = self._policy.state_dict(), dict[int, Chunks]()
        while len(came) < self.workers:
            self.fleet.give(self.iterations, weights, (steps, alike, told_error), came)
            came |= {n: block.made for n, block in self.fleet.arrived(self.iterations, _WAIT_S, self.workers)}
        return beside([came[number] for number in range(self.workers)])


class SampledTrials(FineTuning):
    """A policy that goes on from another run's by its own trials; see :class:`.FineTuning`.

    It is also a :class:`rlstack.training.rollout_worker.RollsOut`.

    Args:
        settings: Where to go on from, and who moves the robots.
        environment: The robots.
        algorithm: The algorithm's name.
        temperature: Of the samples.
        places: Whether it is kept where named things are in the images.

    Raises:
        UserError: As :class:`.FineTuning`, or workers cannot share the robots.
    """

    def __init__(
        self,
        settings: SampledSettings,
        environment: LearningEnvironment,
        algorithm: str,
        temperature: float,
        places: bool = False,
    ) -> None:
        super().__init__(settings, environment, algorithm, temperature, places)
        check_shares(settings.workers, environment.count)
        self._shared = SharedRollouts(self.policy, settings.workers) if settings.workers else None
        self.trials: CollectsChunks = self.rollouts if self._shared is None else self._shared
        self.ray = ""
        """Address of a Ray cluster for the workers; empty: processes of this machine."""

    def open(self, folder: Path | None) -> None:
        """Load the policy to go on from, unless resuming, and start the workers.

        Raises:
            UserError: Workers need a folder.
        """
        super().open(folder)
        shared = self._shared
        if shared is not None:
            if folder is None:
                raise UserError("workers need a run's folder.")
            workers, robots = shared.workers, self.environment.count
            threads = max(1, torch.get_num_threads() // workers)
            shared.fleet = start_fleet(folder, workers, robots, threads, self.ray, lambda: shared.iterations)

    def close(self) -> None:
        """End the workers, whose robots' steps since their last block do not count."""
        if self._shared is not None and self._shared.fleet is not None:
            self._shared.fleet.close()

    def worker_figures(self) -> dict[str, float]:
        """Return the workers' figures since the last call; none without workers."""
        return {} if self._shared is None or self._shared.fleet is None else self._shared.fleet.figures()

    def begin_as_worker(self, fixed: Any) -> None:
        """Act for a learner elsewhere; see :class:`rlstack.training.rollout_worker.RollsOut`."""
        self._loaded = True  # the policy comes with each order

    def roll_out(self, order: Order) -> Chunks:
        """Try by a policy; see :class:`rlstack.training.rollout_worker.RollsOut`."""
        if order.weights is not None:
            self.policy.load_state_dict(order.weights)
        return self.rollouts.collect(*order.how)

    def state_dict(self) -> dict[str, Any]:
        """Return policy, environment and random state; workers' robots begin anew after resuming."""
        return {**super().state_dict(), "iterations": 0 if self._shared is None else self._shared.iterations}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        if self._shared is not None:
            self._shared.iterations = state["iterations"]
