"""Training environments of jointed robots in MuJoCo worlds; commands are joint targets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Index, Mask
from rlstack.errors import UserError
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
from rlstack.tasks.core.cpu_environment import CpuEnvironment
from rlstack.tasks.core.learning_environment import GoalStep
from rlstack.tasks.core.pipeline import Pipeline


@dataclass(frozen=True)
class Outcome:
    """Outcome of one step of N robots.

    Args:
        terms: (N,) weighted terms of the reward by name, in order.
        finished: (N,) whether an episode ends because its task is done.
        success: (N,) whether the task has been done for long enough.
        continuing: Whether to bootstrap the value after a finished episode.
    """

    terms: Mapping[str, Array]
    finished: Mask
    success: Mask
    continuing: bool = False


class MujocoScene(Protocol):
    """N MuJoCo worlds with a robot each, and its sensors."""

    worlds: MujocoSimulator

    def true(self, images: bool = True) -> dict[str, Array]:
        """Return the signals (N, ...) that policies get now, without noise; without ``images`` none is rendered."""

    def noisy(self, signals: dict[str, Array]) -> dict[str, Array]:
        """Return signals (n, ...) with sensor noise."""

    def lost(self) -> Mask:
        """Return (N,) whether a robot has failed or its state is not finite."""

    def seed(self, seed: int) -> None:
        """Reseed the noise."""

    def close(self) -> None:
        """Stop the threads."""


class MujocoEnvironment(CpuEnvironment):
    """N robots at a task; a :class:`.learning_environment.GoalEnvironment`, whose goals are empty by default.

    A subclass names its scene and defines starts and rewards. Tensors are on the CPU whatever device steps the worlds.

    Args:
        task: The task's configuration; it has ``inputs`` and ``steps``, the episode length.
        robot: The robot.
        pipeline: Computes observations, and joint targets from actions.
        count: N.
        device: Device that steps the worlds; see :func:`rlstack.sim.batch_mujoco.make_mujoco_simulator`.
        seed: Seed of starts and noise.
        threads: Threads that step the worlds on the CPU; None: one per core.

    Raises:
        UserError: The device or a package is missing, or the robot cannot reach the starts.
    """

    scene_class: ClassVar[Any]
    """Returns the :class:`MujocoScene` for (task, robot, count, seed, threads, device)."""
    scene: Any

    no_gradients = "MuJoCo, which simulates this task, gives no gradients: learn with ppo or sac."

    def __init__(
        self,
        task: Any,
        robot: Any,
        pipeline: Pipeline,
        count: int,
        *,
        device: str = "cpu",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.scene = self.scene_class(task, robot, count, seed, threads, device)
        super().__init__(task, pipeline, count, seed)
        self.robot, self.worlds = robot, self.scene.worlds
        self._last_action = np.zeros((self.count, pipeline.action_size))
        self._memory = pipeline.initial_memory(self.count)
        self._prepared: dict[str, Tensor] | None = None
        self._set_up()
        self.reset_all()

    def _set_up(self) -> None:
        """Set the subclass's attributes before the first reset."""
        return None

    @abstractmethod
    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""

    @abstractmethod
    def _start(self, index: Index) -> None:
        """Begin episodes in some worlds."""

    @abstractmethod
    def _outcome(self, action: Array, lost: Mask) -> Outcome:
        """Return the outcome of clipped actions (N, actions); ``_last_action`` still holds the previous ones."""

    def seed(self, seed: int) -> None:
        """Reseed the generators; what was drawn ahead stays."""
        super().seed(seed)
        self.scene.seed(seed)

    def reset_all(self) -> None:
        """Reset every robot, staggered over the episode so that they do not end together."""
        self.restart(torch.arange(self.count))
        self._age = self._rng.integers(0, self.task.steps, self.count)

    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``."""
        robots = index.numpy()
        self._start(robots)
        self._age[robots], self._last_action[robots] = 0, 0.0
        for memory in self._memory.values():
            memory[index] = 0.0
        self._prepared = None

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations; both are the same."""
        with torch.no_grad():
            self._prepared = self._prepare()
            seen = self.pipeline.observe(self._prepared, self._memory)
        return seen, seen

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions), and reset the robots that are lost, done or out of time."""
        prepared = self._sensed()
        with torch.no_grad():
            clipped = self.pipeline.clip(action.detach())
            command = self.pipeline.command(clipped, prepared)
            self._memory = self.pipeline.remember_command(prepared, self._memory, clipped, command)
        self._drive(command.numpy().astype(np.float64))
        self._age += 1
        lost = self.scene.lost()
        if lost.any() and len(diverged := np.flatnonzero(~np.isfinite(self.worlds.state).all(axis=1))):
            self._start(diverged)  # keep values that are not finite from everything after
        actor, _ = self.observe()
        taken = clipped.numpy().astype(np.float64)
        outcome = self._outcome(taken, lost)
        self._last_action = taken
        timed_out = (self._age >= self.task.steps) & ~lost & ~outcome.finished
        done = lost | outcome.finished | timed_out
        if outcome.continuing:
            timed_out = timed_out | outcome.finished
        terms = {name: torch.from_numpy(term.astype(np.float32)) for name, term in outcome.terms.items()}
        before, achieved, desired = actor, self.achieved_goal(), self.desired_goal()
        if self.autoreset and done.any():
            actor = self._restarted(torch.from_numpy(np.flatnonzero(done)), actor)
        return GoalStep(
            actor=actor,
            critic=actor,
            reward=torch.stack(list(terms.values())).sum(dim=0),
            done=torch.from_numpy(done),
            timed_out=torch.from_numpy(timed_out),
            terms=terms,
            next_actor=before,
            achieved=achieved,
            desired=desired,
            success=torch.from_numpy(outcome.success),
        )

    def achieved_goal(self) -> Tensor:
        """Return the achieved goals (N, goal); a single 0 for a task without goals."""
        return torch.zeros(self.count, 1)

    def desired_goal(self) -> Tensor:
        """Return the desired goals (N, goal); a single 0 for a task without goals."""
        return torch.zeros(self.count, 1)

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward of steps that led to ``achieved``, for the goal ``desired``.

        Raises:
            UserError: The task has no goals.
        """
        raise UserError("This task has no goals: set hindsight to 0.")

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations relabelled for another goal.

        Raises:
            UserError: The task has no goals.
        """
        raise UserError("This task has no goals: set hindsight to 0.")

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        prepared = self._prepared
        return {
            **super().state_dict(),
            "worlds": torch.from_numpy(self.worlds.state.copy()),
            "last": torch.from_numpy(self._last_action.copy()),
            "memory": {name: tensor.clone() for name, tensor in self._memory.items()},
            "prepared": None if prepared is None else {n: t.clone() for n, t in prepared.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.worlds.state[:], self._last_action = state["worlds"].numpy(), state["last"].numpy().copy()
        self._memory = {name: tensor.clone() for name, tensor in state["memory"].items()}
        prepared = state["prepared"]
        self._prepared = None if prepared is None else {n: t.clone() for n, t in prepared.items()}

    def close(self) -> None:
        """Close the worlds and cameras."""
        self.scene.close()

    def _drive(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, joints), rad or m."""
        self.worlds.step(command)

    def _noisy(self, signals: dict[str, Array], index: Any) -> dict[str, Array]:
        """Return signals (n, ...) of the robots at ``index`` with sensor noise."""
        found: dict[str, Array] = self.scene.noisy(signals)
        return found

    def _sensed(self) -> dict[str, Tensor]:
        """Return the pipeline's prepared inputs of the present."""
        if self._prepared is None:
            self.observe()
        assert self._prepared is not None
        return self._prepared

    def _prepare(self, index: Tensor | None = None) -> dict[str, Tensor]:
        """Return the prepared inputs of all robots, or of those at ``index``."""
        chosen = slice(None) if index is None else index.numpy()
        sensed = self._noisy({name: array[chosen] for name, array in self.scene.true().items()}, chosen)
        inputs = {name: torch.from_numpy(sensed[name].astype(np.float32)) for name in self.task.inputs}
        memory = {name: memory[chosen] for name, memory in self._memory.items()}
        prepared: dict[str, Tensor] = self.pipeline.prepare(inputs, memory)
        return prepared

    def _restarted(self, index: Tensor, actor: Tensor) -> Tensor:
        """Reset some robots; return the observations (N, size), unchanged for the others."""
        kept = self._sensed()
        self.restart(index)
        with torch.no_grad():
            fresh = self._prepare(index)
            seen = self.pipeline.observe(fresh, {name: memory[index] for name, memory in self._memory.items()})
        self._prepared = {name: tensor.index_copy(0, index, fresh[name]) for name, tensor in kept.items()}
        return actor.index_copy(0, index, seen)
