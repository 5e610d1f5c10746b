"""The reinforcement stage of the Meta-World benchmark: the supervised policy goes on by PPO, from success alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlstack.files import write_atomically
from rlstack.foreign.workers import Workers
from rlstack.interfaces.instruction import encoded
from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.tasks.core.chunk_environment import ChunkStep
from rlstack.tasks.core.pipeline import TermInfo
from rlstack.training.language.proximal import Proximal, ProximalSettings
from rlstack.training.language.rollouts import Rollouts
from rlstack.training.metaworld.demonstrations import LABELS
from rlstack.training.metaworld.learning import POLICY, STATE, load_policy, make_policy, save
from rlstack.training.metaworld.suite import Suite
from rlstack.training.metaworld.trials import FIRST_SEED
from rlstack.training.metaworld.worker import SIZE
from rlstack.training.simulated_trials import dealt

REINFORCED = "reinforced.pt"
"""File of policy, critic and optimisers."""

SETTINGS = ProximalSettings(rollout=64, batch=128, temperature=1.0, warm_up=2)
"""Settings of PPO. An iteration is a bit longer than the longest episode; samples stray by a centimetre in a chunk."""


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
        suite: The tasks.
        seed: Of layouts; they are none of the benchmark's trials.
        steps: Longest episode.
    """

    def __init__(self, workers: Workers, suite: Suite, seed: int, steps: int) -> None:
        self._workers, self._names = workers, list(suite.sentences)
        self._groups = dealt(self._names, len(workers))
        self._random = np.random.default_rng(seed)
        self.count, self.task = len(self._names), Trial(steps)
        sizes = {"state": STATE, "instruction": INSTRUCTION_BYTES, "pictures": SIZE * SIZE * 3}
        starts = np.cumsum([0, *sizes.values()]).tolist()
        self.pipeline = Columns([TermInfo(name, k, n, "", name) for (name, n), k in zip(sizes.items(), starts)])
        self._said = torch.from_numpy(np.stack([encoded(said) for said in suite.sentences.values()])).float()
        self._state, self._labels = torch.zeros(self.count, STATE), torch.zeros(self.count, LABELS)
        self._pictures = torch.zeros(self.count, SIZE * SIZE * 3)
        self._age = torch.zeros(self.count)
        self._begin(self._names)

    @property
    def privileged_size(self) -> int:
        """Number of columns of :meth:`privileged`."""
        return STATE + LABELS + 1 + self.count

    def privileged(self) -> Tensor:
        """Return hand, positions of objects and goal, share of the time and which task it is, (N, columns)."""
        return torch.cat([self._state, self._labels, self._age[:, None] / self.task.steps, torch.eye(self.count)], 1)

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


@dataclass
class Reinforced:
    """How far reinforcement is.

    Args:
        iterations: Iterations so far.
        episodes: Episodes that ended in them.
        cpu_s: Spent so far, workers included.
        curve: Success of each iteration's episodes, with the CPU time until then.
    """

    iterations: int = 0
    episodes: int = 0
    cpu_s: float = 0.0
    curve: list[dict[str, float]] | None = None


def reinforce(
    workers: Workers,
    suite: Suite,
    folder: Path,
    seed: int,
    iterations: int,
    steps: int,
    on_progress: Callable[[int, int], None],
) -> Reinforced:
    """Improve the folder's supervised policy by PPO; go on where it was interrupted, with new trials.

    Args:
        workers: Processes with Meta-World.
        suite: Its tasks.
        folder: The benchmark's folder.
        seed: Of layouts and samples.
        iterations: Number of iterations.
        steps: Longest episode.
        on_progress: Called with the iterations done and their number.
    """
    torch.manual_seed(seed)
    file, far = folder / REINFORCED, Reinforced(curve=[])
    held = torch.load(file, weights_only=True) if file.is_file() else None
    policy = make_policy(suite)
    policy.load_state_dict(held["policy"] if held else torch.load(folder / POLICY, weights_only=True))
    generator = torch.Generator().manual_seed(seed)
    begun = held["far"]["iterations"] if held else 0
    robots = Robots(workers, suite, FIRST_SEED * (seed + 1) + begun, steps)
    proximal = Proximal(SETTINGS, Rollouts(robots, policy, SETTINGS.temperature, generator), generator)
    if held:
        proximal.load_state_dict(held["proximal"])
        generator.set_state(held["random"])
        far = Reinforced(**held["far"])
    else:
        proximal.learner.refer()
    cpu = time.process_time() + workers.cpu_s() - far.cpu_s
    while far.iterations < iterations:
        _, scalars = proximal.iterate(far.iterations / iterations)
        far.iterations += 1
        far.episodes += int(scalars["train/episodes"])
        far.cpu_s = time.process_time() + workers.cpu_s() - cpu
        assert far.curve is not None
        far.curve.append({"episodes": far.episodes, "cpu_s": round(far.cpu_s, 1), "success": scalars["train/success"]})
        state = {"policy": policy.state_dict(), "proximal": proximal.state_dict(), "random": generator.get_state()}
        save(file, {**state, "far": vars(far)})
        write_atomically(folder / "reinforcing.json", json.dumps(vars(far), indent=1) + "\n")
        on_progress(far.iterations, iterations)
    for worker in range(len(workers)):
        workers.ask(worker, "close")
    return far


def load_reinforced(suite: Suite, folder: Path) -> Any:
    """Return the policy that :func:`reinforce` wrote."""
    policy = load_policy(suite, folder)
    policy.load_state_dict(torch.load(folder / REINFORCED, weights_only=True)["policy"])
    return policy.eval().requires_grad_(False)
