"""Adapter that lets rlstack's algorithms learn from third-party Gymnasium environments.

The observation is flattened; actions in -1..1 are scaled to the environment's action box.
An environment with goals (a dictionary with ``achieved_goal`` and ``desired_goal`` and a method ``compute_reward``, as
in Gymnasium-Robotics) supports hindsight replay; others do not.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.tasks.core.cpu_environment import CpuEnvironment
from rlstack.tasks.core.learning_environment import GoalStep
from rlstack.tasks.core.observations import Signal
from rlstack.tasks.core.pipeline import Pipeline, Tensors

Expert = Callable[[Any, Array], Array]
"""Map an environment and its observation (columns,) to the expert's action (actions,) in -1..1."""

_OBSERVATION, _ACTION = "observation", "action"
_ACHIEVED, _DESIRED = "achieved_goal", "desired_goal"


@dataclass(frozen=True)
class GymnasiumTask:
    """The task attributes that algorithms read."""

    rate_hz: float
    """Control rate."""
    steps: int
    """Longest episode."""
    rewards: str
    """``sparse`` if rewards can be recomputed for other goals, else ``given``."""


class GymnasiumPipeline(Pipeline):
    """Pass the observation through, and scale actions to a box.

    Args:
        size: Columns of the observation.
        minimum: (actions,) lower bounds of the box.
        maximum: (actions,) upper bounds of the box.
    """

    def __init__(self, size: int, minimum: Sequence[float], maximum: Sequence[float]) -> None:
        observation = Signal(_OBSERVATION, size, "-", "the environment's observation, flat")
        super().__init__([observation], _ACTION, minimum, maximum)

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the inputs unchanged."""
        return dict(inputs)


class GymnasiumLearningEnvironment(CpuEnvironment):
    """N Gymnasium environments as a :class:`.GoalEnvironment`, stepped one after another in this process.

    Args:
        environments: N identical Gymnasium environments.
        rate_hz: Control rate, for rewards per second.
        steps: Longest episode; None: as registered with Gymnasium.
        success: Key of ``info`` that reports success; empty: there is none.
        seed: Seeds the generator that draws a seed for each reset.

    Raises:
        UserError: The list is empty, the action space is not a bounded box, or the episode length is unknown.
    """

    no_gradients = "Gymnasium environments give no gradients: learn with ppo, sac or rlpd."

    def __init__(
        self,
        environments: Sequence[Any],
        *,
        rate_hz: float,
        steps: int | None = None,
        success: str = "is_success",
        seed: int = 0,
    ) -> None:
        from gymnasium.spaces import flatdim

        if not environments:
            raise UserError("environments: [] is not allowed: give at least one Gymnasium environment.")
        self.environments, self.success = tuple(environments), success
        first, count = environments[0], len(environments)
        low, high = _box(first)
        self.goals = _has_goals(first)
        length = steps or getattr(getattr(first, "spec", None), "max_episode_steps", None)
        if not length:
            raise UserError(f"{_name(first)} has no registered episode length: give steps.")
        task = GymnasiumTask(rate_hz, length, "sparse" if self.goals else "given")
        self._goals: list[tuple[Array, Array]] = [(np.zeros(1), np.zeros(1))] * count
        space = first.observation_space
        size = sum(math.prod(part.shape) for part in space.values()) if self.goals else flatdim(space)
        super().__init__(task, GymnasiumPipeline(size, low, high), count, seed)
        self._observations: list[Array] = [np.zeros(0)] * count
        self.restart(torch.arange(count))

    def _random(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def reset_all(self) -> None:
        """Reset every robot; Gymnasium cannot stagger them over the episode."""
        self.restart(torch.arange(self.count))

    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``."""
        for robot in index.tolist():
            self._start(robot)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations; both are the same."""
        seen = _rows(self._observations)
        return seen, seen

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions), and reset the robots whose episode is over.

        Raises:
            UserError: An episode ends and its ``info`` lacks the success key.
        """
        command = self.pipeline.command(self.pipeline.clip(action.detach()), {}).numpy()
        rewards = np.zeros(self.count)
        terminated, truncated, success = (np.zeros(self.count, dtype=np.bool_) for _ in range(3))
        for robot, environment in enumerate(self.environments):
            space = environment.action_space
            now = np.clip(command[robot].reshape(space.shape).astype(space.dtype), space.low, space.high)
            seen, rewards[robot], terminated[robot], truncated[robot], info = environment.step(now)
            success[robot] = bool(info.get(self.success, False))
            if self.success and self.success not in info and (terminated[robot] or truncated[robot]):
                raise UserError(
                    f"{_name(environment)} does not report '{self.success}' in info, but {sorted(info) or 'nothing'}:"
                    " set success to the key that it uses, or to '' if it has none."
                )
            self._store(robot, seen)
        self._age += 1
        truncated |= self._age >= self.task.steps
        done = terminated | truncated
        before, achieved, desired = _rows(self._observations), self.achieved_goal(), self.desired_goal()
        for ended in np.flatnonzero(done & self.autoreset):
            self._start(int(ended))
        actor, _ = self.observe()
        reward = torch.from_numpy(rewards.astype(np.float32))
        return GoalStep(
            actor=actor,
            critic=actor,
            reward=reward,
            done=torch.from_numpy(done),
            timed_out=torch.from_numpy(truncated & ~terminated),
            terms={"reward": reward},
            next_actor=before,
            achieved=achieved,
            desired=desired,
            success=torch.from_numpy(success),
        )

    def achieved_goal(self) -> Tensor:
        """Return the achieved goals (N, goal); a single 0 for a task without goals."""
        return _rows([achieved for achieved, _ in self._goals])

    def desired_goal(self) -> Tensor:
        """Return the desired goals (N, goal); a single 0 for a task without goals."""
        return _rows([desired for _, desired in self._goals])

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward (n,) of steps that led to ``achieved`` (n, goal) if the goal was ``desired``.

        Raises:
            UserError: The environment has no goals.
        """
        self._check_goals()
        compute_reward = self.environments[0].unwrapped.compute_reward
        reward = compute_reward(achieved.numpy().astype(np.float64), desired.numpy().astype(np.float64), {})
        return torch.from_numpy(np.asarray(reward, dtype=np.float32).reshape(len(achieved)))

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations (n, columns) as they would be with the goal ``desired``.

        Raises:
            UserError: The environment has no goals.
        """
        self._check_goals()
        seen = observation.clone()
        seen[..., seen.shape[-1] - desired.shape[-1] :] = desired
        return seen

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return ("reward",)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator of seeds; current episodes are not saved."""
        return {"seeds": copy.deepcopy(self._rng.bit_generator.state), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict` and begin new episodes: Gymnasium cannot save a running one."""
        self._rng.bit_generator.state = copy.deepcopy(state["seeds"])
        self.generator.set_state(state["generator"])
        self.reset_all()

    def close(self) -> None:
        """Close the environments."""
        for environment in self.environments:
            environment.close()

    def _start(self, robot: int) -> None:
        seen, _ = self.environments[robot].reset(seed=int(self._rng.integers(2**31)))
        self._age[robot] = 0
        self._store(robot, seen)

    def _store(self, robot: int, seen: Any) -> None:
        environment = self.environments[robot]
        if not self.goals:
            from gymnasium.spaces import flatten

            self._observations[robot] = np.asarray(flatten(environment.observation_space, seen), dtype=np.float64)
            return
        achieved, desired = (np.asarray(seen[name], dtype=np.float64).ravel() for name in (_ACHIEVED, _DESIRED))
        others = [np.asarray(seen[name], dtype=np.float64).ravel() for name in sorted(seen) if name != _DESIRED]
        self._observations[robot] = np.concatenate([*others, desired])
        self._goals[robot] = achieved, desired

    def _check_goals(self) -> None:
        if not self.goals:
            raise UserError(f"{_name(self.environments[0])} has no goals: set hindsight to 0.")


class ScriptedGymnasiumLearningEnvironment(GymnasiumLearningEnvironment):
    """See :class:`rlstack.tasks.core.learning_environment.ScriptedEnvironment`.

    Args:
        environments: N identical Gymnasium environments.
        expert: The scripted expert.
        settings: Arguments of :class:`GymnasiumLearningEnvironment`.
    """

    def __init__(self, environments: Sequence[Any], expert: Expert, **settings: Any) -> None:
        self._expert = expert
        super().__init__(environments, **settings)

    def expert_action(self) -> Tensor:
        """Return the expert's actions (N, actions) in -1..1."""
        actions = [self._expert(env, seen) for env, seen in zip(self.environments, self._observations)]
        return self.pipeline.clip(_rows(actions))


def _rows(arrays: Sequence[Array]) -> Tensor:
    return torch.from_numpy(np.stack(arrays).astype(np.float32))


def _name(environment: Any) -> str:
    spec = getattr(environment, "spec", None)
    return str(spec.id) if spec is not None else type(environment.unwrapped).__name__


def _box(environment: Any) -> tuple[list[float], list[float]]:
    low, high = (getattr(environment.action_space, name, None) for name in ("low", "high"))
    if low is None or high is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise UserError(
            f"{_name(environment)} has the action space {environment.action_space}: only bounded boxes can be learned"
            " here. Wrap it in a gymnasium.ActionWrapper that has one."
        )
    return low.ravel().astype(float).tolist(), high.ravel().astype(float).tolist()


def _has_goals(environment: Any) -> bool:
    names = getattr(environment.observation_space, "spaces", {})
    return {_ACHIEVED, _DESIRED} <= set(names) and hasattr(environment.unwrapped, "compute_reward")
