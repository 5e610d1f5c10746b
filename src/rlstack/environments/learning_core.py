"""Any task in its training simulator, as an :class:`rlstack.environments.environment_core.EnvironmentCore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike
from torch import Tensor

from rlstack.arrays import Array32, Index, Mask
from rlstack.environments.environment_core import GOAL, SIGNALS, EnvironmentCore
from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalEnvironment, GoalStep

_BOUND = 1e6
"""Bound to which every observation column is clipped."""

_GOALS = ("observation", "achieved_goal", "desired_goal")


class LearningCore(EnvironmentCore):
    """N robots of a :class:`rlstack.tasks.core.learning_environment.LearningEnvironment`, at the end of its curriculum.

    With goal observations, ``observation`` is that of a robot at its goal, so that only ``desired_goal`` has the goal
    and hindsight can change it; :meth:`relabelled` puts the goal back.

    Args:
        environment: Result of ``task.environment(...)``; its automatic resets are disabled.
        observation_kind: Kind of observation, ``"policy"`` or ``"goal"``.

    Raises:
        UserError: The task does not support that kind.
    """

    def __init__(self, environment: Any, observation_kind: str) -> None:
        self.task, self.count, self.environment = environment.task, environment.count, environment
        name, count = type(self.task).__name__, self.count
        if observation_kind == SIGNALS:
            raise UserError(f"observation: 'signals' is not allowed: {name} supports 'policy' observations.")
        self.goals = observation_kind == GOAL
        if self.goals and not isinstance(environment, GoalEnvironment):
            raise UserError(f"observation: 'goal' is not allowed: {name} has no goals.")
        if self.goals and getattr(self.task, "rewards", "sparse") != "sparse":
            raise UserError("observation: 'goal' is not allowed with dense rewards: hindsight needs rewards='sparse'.")
        environment.autoreset = False
        environment.set_progress(1.0)
        self.action_space = spaces.Box(-1.0, 1.0, (environment.pipeline.action_size,), np.float32)
        columns: spaces.Space = _box((environment.pipeline.size,))
        if self.goals:
            goal = _box(tuple(environment.achieved_goal().shape[1:]))
            columns = spaces.Dict(dict(zip(_GOALS, (columns, goal, goal))))
        self.observation_space = columns
        self.reward: Array32 = np.zeros(count, np.float32)
        self.terms = dict.fromkeys(environment.term_names(), self.reward)
        self.terminated: Mask = np.zeros(count, bool)
        self.truncated: Mask = np.zeros(count, bool)
        self.success: Mask | None = None

    def seed(self, seeds: Sequence[int]) -> None:
        """Seed all random draws, from all seeds together."""
        self.environment.seed(int(np.random.SeedSequence(list(seeds)).generate_state(1)[0]))

    def begin(self, index: Index, state: Mapping[str, ArrayLike] | None = None, *, after_step: bool = False) -> None:
        """Start the next episodes of some robots, in random start states."""
        if state is not None:
            raise UserError("options: state is not allowed: only quadrotor tasks accept a start state.")
        self.environment.restart(torch.from_numpy(np.asarray(index)))
        self._observation = self.environment.observe()[0]

    def step(self, actions: ArrayLike) -> None:
        """Advance one control period with actions (N, actions)."""
        action = torch.from_numpy(np.array(actions, np.float32))
        if not torch.isfinite(action).all():
            raise ValueError("The action is not finite: the policy that made it has diverged.")
        result = self.environment.step(action.reshape(self.count, -1))
        self._observation = result.actor
        self.reward = result.reward.numpy().copy()
        self.terms = {name: term.numpy().copy() for name, term in result.terms.items()}
        self.truncated = result.timed_out.numpy().copy()
        self.terminated = result.done.numpy() & ~self.truncated
        self.success = result.success.numpy().copy() if isinstance(result, GoalStep) else None

    def observation(self) -> Any:
        """Return a copy of the present observation: (N, columns), or arrays (N, ...) by name."""
        if not self.goals:
            return _bounded(self._observation)
        achieved, desired = self.environment.achieved_goal(), self.environment.desired_goal()
        observation = self.environment.relabelled(self._observation, achieved, achieved)
        return dict(zip(_GOALS, map(_bounded, (observation, achieved, desired))))

    def compute_reward(self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any) -> Array32:
        """Return the reward (...) of steps that led to ``achieved_goal`` (..., goal), for the goal ``desired_goal``."""
        goals = (torch.from_numpy(np.asarray(goal, np.float32)) for goal in (achieved_goal, desired_goal))
        return self.environment.reward_of(*goals).numpy()  # type: ignore[no-any-return]

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the policy network's observation (n, columns) for ``observation`` and these goals."""
        return self.environment.relabelled(observation, achieved, desired)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Release the simulator."""
        getattr(self.environment, "close", lambda: None)()


def _box(shape: tuple[int, ...]) -> spaces.Box:
    return spaces.Box(-_BOUND, _BOUND, shape, np.float32)


def _bounded(observation: Tensor) -> Array32:
    found: Array32 = observation.nan_to_num(0.0).clamp(-_BOUND, _BOUND).numpy().copy()
    return found
