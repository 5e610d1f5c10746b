"""Replay buffer on disk, with hindsight relabelling of goals."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.data.replay import ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalEnvironment, GoalStep
from rlstack.training.replay_journal import ReplayJournal

REPLAY = "replay"
"""Folder of steps in a run's folder."""
INTERVENTIONS = "interventions"
"""Folder of interventions in a run's folder."""


Rows = dict[str, NDArray[Any]]


def went_on(result: GoalStep) -> Tensor:
    """Return (N,): 0 where a step terminated its episode, else 1, as after a time-out."""
    return (~(result.done & ~result.timed_out)).float()


def rows_of(action: Tensor, result: GoalStep) -> Rows:
    """Return a step of every robot by field name, (N, ...) each, in arrays that the caller may keep."""
    return {
        "observation": result.next_actor.numpy().copy(),
        "achieved": result.achieved.numpy().copy(),
        "action": action.numpy().copy(),
        "reward": result.reward.numpy().copy(),
        "goes_on": went_on(result).numpy(),
    }


def each(rows: Rows) -> list[Rows]:
    """Split rows of all robots into one row for each robot."""
    return [dict(zip(rows, values)) for values in zip(*rows.values())]


def keep_episode(buffer: ReplayBuffer, steps: Sequence[Rows]) -> None:
    """Store an episode: its first observation, then each step and the observation after it, by field name."""
    first, *others = steps
    spec = buffer.spec
    buffer.begin({name: first[name] for name in spec.observations})
    for step in others:
        buffer.add({n: step[n] for n in spec.transitions}, {n: step[n] for n in spec.observations})


def episode_bounds(buffer: ReplayReader, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (steps, 2): the rows of ``index`` that hold the first and last step of each step's episode."""
    begins = np.flatnonzero(np.diff(buffer.bounds(index)[0], prepend=-1))
    ends = np.append(begins[1:], len(index))
    return np.repeat(np.stack([begins, ends - 1], axis=1), ends - begins, axis=0)


def dealt(rows: Mapping[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """Split a sample into ``count`` interleaved batches, so that each has its share of relabelled steps."""
    return [{name: values[k::count] for name, values in rows.items()} for k in range(count)]


class ReplaySampler:
    """Draws batches of steps from disk; another process may write them.

    Args:
        buffer: The replay buffer.
        seed: Seed of sampling.
        environment: Their environment, for relabelling; None: no relabelling.
    """

    def __init__(self, buffer: ReplayReader, seed: int = 0, environment: GoalEnvironment | None = None) -> None:
        self.buffer, self._environment = buffer, environment
        self.rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.buffer)

    def sample(self, count: int, hindsight: float = 0.0, ahead: int = 1, gamma: float = 1.0) -> dict[str, Tensor]:
        """Return a batch for :class:`rlstack.training.soft_actor_critic.SoftActorCriticLearner`.

        Args:
            count: Batch size.
            hindsight: Share relabelled with a goal that was achieved later in the episode (Andrychowicz et al.,
                arXiv 1707.01495, strategy ``future``).
            ahead: Steps of an n-step return, fewer at an episode's end.
            gamma: Discount per step of that return.
        """
        drawn = self.buffer.draw(count, self.rng)
        batch = {name: torch.from_numpy(array) for name, array in self.buffer.gather(drawn).items()}
        environment, reached = self._environment, None
        other = slice(0, round(hindsight * count) if environment is not None else 0)
        if environment is not None and other.stop:
            reached = torch.from_numpy(self.buffer.observe(self.buffer.later(drawn[other], self.rng))["achieved"])
            self._relabel(batch, "", other, reached)
            self._reward_again(batch, other, reached)
        if ahead > 1:
            self._look_ahead(batch, drawn, ahead, gamma, other, reached)
        if reached is not None:
            self._relabel(batch, "next_", other, reached)
        return batch

    def all_steps(self) -> dict[str, Tensor]:
        """Return all steps, by field."""
        return {name: torch.from_numpy(array) for name, array in self.buffer.gather(self.buffer.indices()).items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the state that is not in the files."""
        return {"random": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`; all steps in the files stay, even later ones."""
        self.rng.bit_generator.state = state["random"]

    def _look_ahead(
        self,
        batch: dict[str, Tensor],
        drawn: NDArray[np.int64],
        ahead: int,
        gamma: float,
        other: slice,
        reached: Tensor | None,
    ) -> None:
        """Add the rewards of the following steps, and use the observation after them as the next one."""
        lanes = self.buffer.spec.lanes
        _, last = self.buffer.bounds(drawn)
        weight = torch.ones(len(drawn))
        for k in range(1, ahead):
            at = drawn + k * lanes
            inside = at < last
            more = {n: torch.from_numpy(a) for n, a in self.buffer.gather(np.where(inside, at, drawn)).items()}
            if reached is not None and self._environment is not None:
                self._reward_again(more, other, reached)
            weight = torch.where(torch.from_numpy(inside), gamma * weight, weight)
            counts = torch.from_numpy(inside)
            batch["reward"] += counts * weight * more["reward"]
            batch["goes_on"] = torch.where(counts, batch["goes_on"] * more["goes_on"], batch["goes_on"])
            for name in ("next_observation", "next_achieved"):
                batch[name][counts] = more[name][counts]
        batch["goes_on"] *= weight

    def _reward_again(self, batch: dict[str, Tensor], rows: slice, goal: Tensor) -> None:
        """Reward relabelled steps for their new goal.

        An end by success depended on the original goal, and the episode goes on. A loss, which ended without the reward
        of success (0), ends it whatever the goal is, and keeps its price.
        """
        assert self._environment is not None
        lost = (batch["goes_on"][rows] == 0.0) & (batch["reward"][rows] < 0.0)
        earned = self._environment.reward_of(batch["next_achieved"][rows], goal)
        batch["reward"][rows] = torch.where(lost, batch["reward"][rows], earned)
        batch["goes_on"][rows] = (~lost).float()

    def _relabel(self, batch: dict[str, Tensor], prefix: str, rows: slice, goal: Tensor) -> None:
        assert self._environment is not None
        seen, achieved = batch[f"{prefix}observation"], batch[f"{prefix}achieved"][rows]
        seen[rows] = self._environment.relabelled(seen[rows], achieved, goal)


class HindsightReplay(ReplaySampler):
    """Replay buffer of N robots, with one current episode each.

    Args:
        environment: The robots' environment.
        capacity: Most steps; the oldest are overwritten.
        folder: Folder of the files; None: a temporary folder that is deleted with this object.
        seed: Seed of sampling.
        lanes: Episodes that are written concurrently; None: one for each robot.
        versioned: Whether each step has the version of the policy that took it, as ``version``.
        journal: Lists what is written, instead of files.
        name: By which the journal knows it.
    """

    def __init__(
        self,
        environment: GoalEnvironment,
        capacity: int,
        folder: Path | None = None,
        seed: int = 0,
        lanes: int | None = None,
        versioned: bool = False,
        journal: ReplayJournal | None = None,
        name: str = REPLAY,
    ) -> None:
        columns, actions = environment.pipeline.size, environment.pipeline.action_size
        goal = tuple(environment.achieved_goal().shape[1:])
        seen = fields(observation=((columns,), "float32"), achieved=(goal, "float32"))
        made = fields(action=((actions,), "float32"), reward=((), "float32"), goes_on=((), "float32"))
        if versioned:
            made |= fields(version=((), "int32"))
        self.version = 0
        """Version of the policy that takes the steps that are added."""
        lanes = lanes or environment.count
        if capacity < 2 * lanes:
            raise UserError(
                f"algorithm_settings: capacity: {capacity} is not allowed: {lanes} robots need at least two steps each,"
                f" {2 * lanes}, and more to learn from: raise it, or have fewer (envs)."
            )
        spec = ReplaySpec(seen, made, capacity, lanes)
        self._temporary = None
        if folder is None and journal is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="rlstack-replay-")
            folder = Path(self._temporary.name) / REPLAY
        self.buffer: ReplayBuffer = (
            journal.buffer(name, spec) if journal is not None else ReplayBuffer(folder or Path(), spec)
        )
        self._made_by = environment
        super().__init__(self.buffer, seed, environment)

    def begin(self, observation: Tensor, robots: NDArray[np.intp] | None = None) -> None:
        """Begin episodes with the first observations (N, columns) of all robots, or of those at ``robots`` alone."""
        lanes = np.arange(self._made_by.count) if robots is None else robots
        if len(lanes):
            now = {"observation": observation.numpy()[lanes]}
            now["achieved"] = self._made_by.achieved_goal().numpy()[lanes]
            self.buffer.begin_lanes(now, lanes)

    def add(self, action: Tensor, result: GoalStep, which: Tensor | None = None) -> None:
        """Store a step of all robots, or of ``which`` (N,) bool, and begin new episodes after those that ended."""
        which = torch.ones(self.buffer.spec.lanes, dtype=torch.bool) if which is None else which
        self._store(np.flatnonzero(which.numpy()), action, result)
        self.begin(result.actor, np.flatnonzero((result.done & which).numpy()))

    def _store(self, robots: NDArray[np.intp], action: Tensor, result: GoalStep) -> None:
        rows, spec = rows_of(action, result), self.buffer.spec
        if "version" in spec.transitions:
            rows["version"] = np.full(len(action), self.version, np.int32)
        made = {name: rows[name][robots] for name in spec.transitions}
        self.buffer.add_lanes(made, {name: rows[name][robots] for name in spec.observations}, robots)

    def close(self) -> None:
        """Close the files."""
        self.buffer.close()
        if self._temporary is not None:
            self._temporary.cleanup()


class InterventionReplay(HindsightReplay):
    """Replay buffer of the steps of N robots in which someone intervened.

    Args:
        environment: The robots' environment.
        capacity: Most steps.
        folder: The run's folder; None: a temporary one.
        seed: Seed of sampling.
        versioned, journal: See :class:`HindsightReplay`.
    """

    def __init__(
        self,
        environment: GoalEnvironment,
        capacity: int,
        folder: Path | None,
        seed: int,
        versioned: bool = False,
        journal: ReplayJournal | None = None,
    ) -> None:
        where = None if folder is None else folder / INTERVENTIONS
        super().__init__(environment, capacity, where, seed, None, versioned, journal, INTERVENTIONS)
        self._running = np.zeros(environment.count, dtype=np.bool_)

    def keep(self, now: Tensor, observation: Tensor, achieved: Tensor, action: Tensor, result: GoalStep) -> None:
        """Store a step of the robots with an intervention.

        Args:
            now: (N,) bool: robots with an intervention.
            observation: (N, columns) before the step.
            achieved: (N, goal) before the step.
            action: (N, actions) executed.
            result: Result of the step.
        """
        which = now.numpy()
        fresh, robots = np.flatnonzero(which & ~self._running), np.flatnonzero(which)
        if len(fresh):
            before = {"observation": observation.numpy()[fresh], "achieved": achieved.numpy()[fresh]}
            self.buffer.begin_lanes(before, fresh)
        if len(robots):
            self._store(robots, action, result)
        self._running = which & ~result.done.numpy()
