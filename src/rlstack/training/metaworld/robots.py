"""Meta-World as the environment of rollouts: each task is a robot, whose trials follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlstack.foreign.workers import Workers
from rlstack.interfaces.instruction import encoded
from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.tasks.core.chunk_environment import ChunkStep
from rlstack.tasks.core.pipeline import TermInfo
from rlstack.training.metaworld.demonstrations import LABELS
from rlstack.training.metaworld.learning import STATE
from rlstack.training.metaworld.suite import Suite
from rlstack.training.metaworld.trials import FIRST_SEED
from rlstack.training.metaworld.worker import SIZE
from rlstack.training.simulated_trials import dealt


class Trial(NamedTuple):
    """What Rollouts asks a task for."""

    steps: int
    """Longest episode."""


class Columns(NamedTuple):
    """What Rollouts asks a pipeline for."""

    rows: list[TermInfo]

    def table(self) -> list[TermInfo]:
        """Return one row for each part of an observation."""
        return self.rows


class Robots:
    """Meta-World as the environment of :class:`.Rollouts`: each task is a robot, whose trials follow each other.

    Args:
        workers: Processes with Meta-World.
        suite: All tasks, which the critic tells apart.
        names: The tasks that are tried.
        seed: Of layouts; they are none of the benchmark's trials.
        steps: Longest episode.
    """

    def __init__(self, workers: Workers, suite: Suite, names: Sequence[str], seed: int, steps: int) -> None:
        self._workers, self._names = workers, list(names)
        self._groups = dealt(self._names, len(workers))
        self._random = np.random.default_rng(seed)
        self.count, self.task = len(self._names), Trial(steps)
        sizes = {"state": STATE, "instruction": INSTRUCTION_BYTES, "pictures": SIZE * SIZE * 3}
        starts = np.cumsum([0, *sizes.values()]).tolist()
        self.pipeline = Columns([TermInfo(name, k, n, "", name) for (name, n), k in zip(sizes.items(), starts)])
        self._said = torch.from_numpy(np.stack([encoded(suite.sentences[name]) for name in names])).float()
        self._which = torch.eye(len(suite.sentences))[[list(suite.sentences).index(name) for name in names]]
        self._state, self._labels = torch.zeros(self.count, STATE), torch.zeros(self.count, LABELS)
        self._pictures = torch.zeros(self.count, SIZE * SIZE * 3)
        self._age = torch.zeros(self.count)
        self.restart()

    def restart(self) -> None:
        """Begin a trial of each task, after the workers' environments were closed."""
        self._begin(self._names)

    @property
    def privileged_size(self) -> int:
        """Number of columns of :meth:`privileged`."""
        return STATE + LABELS + 1 + self._which.shape[1]

    def privileged(self) -> Tensor:
        """Return hand, positions of objects and goal, share of the time and which task it is, (N, columns)."""
        return torch.cat([self._state, self._labels, self._age[:, None] / self.task.steps, self._which], dim=1)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the policy's (N, columns) and the critic's observations."""
        return torch.cat([self._state, self._said, self._pictures], dim=1), self.privileged()

    def achieved_goal(self) -> Tensor:
        """Return where the object is (N, 3)."""
        return self._labels[:, :3].clone()

    def desired_goal(self) -> Tensor:
        """Return where its goal is (N, 3)."""
        return self._labels[:, -3:].clone()

    def chunk_step(self, actions: Tensor) -> ChunkStep:
        """Apply chunks (N, chunk, 4), and begin the next trials where one ended with success or by time."""
        chunks = dict(zip(self._names, actions.clamp(-1.0, 1.0).numpy()))
        for worker, group in enumerate(self._groups):
            if group:
                self._workers.send(worker, "act", group, np.stack([chunks[k] for k in group]), self.task.steps)
        success, age = torch.zeros(self.count, dtype=torch.bool), torch.zeros(self.count)
        for worker, group in enumerate(self._groups):
            if group:
                *seen, won, taken = self._workers.receive(worker)
                index = self._see(group, *seen)
                success[index], age[index] = torch.from_numpy(won), torch.from_numpy(taken).float()
        steps, self._age = age - self._age, age
        done = success | (age >= self.task.steps)
        reached, wanted, next_privileged = self.achieved_goal(), self.desired_goal(), self.privileged()
        next_actor = self.observe()[0]
        self._begin([name for name, ended in zip(self._names, done.tolist()) if ended])
        actor, privileged = self.observe()
        return ChunkStep(
            actor=actor,
            critic=privileged,
            reward=success.float() - steps,
            done=done,
            timed_out=done & ~success,
            terms={},
            next_actor=next_actor,
            achieved=reached,
            desired=wanted,
            success=success,
            steps=steps,
            privileged=privileged,
            next_privileged=next_privileged,
        )

    def _begin(self, names: list[str]) -> None:
        """Begin the next trials of tasks."""
        for worker, group in enumerate(self._groups):
            if again := [name for name in group if name in names]:
                trials = [(name, int(self._random.integers(FIRST_SEED))) for name in again]
                self._age[self._see(again, *self._workers.ask(worker, "begin", trials))] = 0.0

    def _see(self, names: list[str], states: Any, labels: Any, pictures: Any) -> list[int]:
        """Keep what tasks show now, and return their places."""
        index = [self._names.index(name) for name in names]
        self._state[index], self._labels[index] = torch.from_numpy(states), torch.from_numpy(labels)
        self._pictures[index] = torch.from_numpy(pictures).flatten(start_dim=1).float()
        return index
