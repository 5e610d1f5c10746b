"""A task with goals as stable-baselines3's hindsight takes it: what is seen, what is achieved, what is desired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from rlstack.errors import UserError
from rlstack.tasks.core.goals import GoalEnvironment

try:
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise UserError("stable-baselines3 is not installed: pip install 'stable-baselines3>=2.4'.") from error

_WITHOUT_BOUNDS = np.inf


class GoalVecEnv(VecEnv):  # type: ignore[misc]
    """N robots of a training environment for stable-baselines3's algorithms with ``HerReplayBuffer``.

    Observations are dictionaries of ``observation`` (N, columns), as the policy file's pipeline makes it,
    ``achieved_goal`` and ``desired_goal`` (N, goal) in the task's units. An episode's last one is in its
    ``info["terminal_observation"]``; ``info["TimeLimit.truncated"]`` is true where time was over, and
    ``info["is_success"]`` where the task was done.

    Args:
        environment: A task with goals, as ``task.environment(...)`` gives it.
    """

    def __init__(self, environment: GoalEnvironment) -> None:
        self.environment = environment
        pipeline, goal = environment.pipeline, tuple(environment.achieved_goal().shape[1:])
        shapes = {"observation": (pipeline.size,), "achieved_goal": goal, "desired_goal": goal}
        boxes = {
            name: spaces.Box(-_WITHOUT_BOUNDS, _WITHOUT_BOUNDS, shape, np.float32) for name, shape in shapes.items()
        }
        self.render_mode = None
        super().__init__(
            environment.count, spaces.Dict(boxes), spaces.Box(-1.0, 1.0, (pipeline.action_size,), np.float32)
        )

    def reset(self) -> dict[str, NDArray[np.float32]]:
        """Start all robots anew; return the first observations."""
        self.environment.restart(torch.arange(self.num_envs))
        return self._seen(self.environment.observe()[0])

    def step_async(self, actions: Any) -> None:
        """Keep the actions."""
        self._actions = torch.from_numpy(np.array(actions, np.float32))

    def step_wait(self) -> Any:
        """Let one control period pass."""
        found = self.environment.step(self._actions)
        last = {"observation": found.next_actor, "achieved_goal": found.achieved, "desired_goal": found.desired}
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for k in found.done.nonzero().flatten().tolist():
            infos[k] = {
                "terminal_observation": {name: tensor[k].numpy().copy() for name, tensor in last.items()},
                "TimeLimit.truncated": bool(found.timed_out[k]),
                "is_success": bool(found.success[k]),
            }
        return self._seen(found.actor), found.reward.numpy().copy(), found.done.numpy().copy(), infos

    def compute_reward(self, achieved: NDArray[Any], desired: NDArray[Any], infos: Any) -> NDArray[np.float32]:
        """Return the reward (n,) of steps that led to ``achieved`` (n, goal) if the goal was ``desired``."""
        return np.asarray(self.environment.reward_of(torch.from_numpy(achieved), torch.from_numpy(desired)).numpy())

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call :meth:`compute_reward`, which is for any of the robots."""
        if method_name != "compute_reward":
            raise AttributeError(f"single robots of a vector environment have no method {method_name}")
        return [self.compute_reward(*args, **kwargs) for _ in self._get_indices(indices)]

    def close(self) -> None:
        """Release the simulator, where it holds anything."""
        getattr(self.environment, "close", lambda: None)()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute once for each robot."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: robots have none of their own."""
        raise AttributeError(f"{attr_name} cannot be set for single robots of a vector environment")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that none is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[Any]:
        """Return no pictures."""
        return []

    def _seen(self, observation: Tensor) -> dict[str, NDArray[np.float32]]:
        environment = self.environment
        parts = (observation, environment.achieved_goal(), environment.desired_goal())
        return dict(zip(("observation", "achieved_goal", "desired_goal"), (part.numpy().copy() for part in parts)))


class AsThePolicySees(BaseFeaturesExtractor):  # type: ignore[misc]
    """Makes of such a dictionary what our own networks see, goal and all, so that none is given more than the other.

    Args:
        observation_space: Of a :class:`GoalVecEnv`.
        environment: Which knows where the goal is in an observation.
    """

    def __init__(self, observation_space: spaces.Dict, environment: GoalEnvironment) -> None:
        super().__init__(observation_space, features_dim=observation_space["observation"].shape[0])
        self._relabelled = environment.relabelled

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Return (n, columns)."""
        names = ("observation", "achieved_goal", "desired_goal")
        return self._relabelled(*(observations[name] for name in names))
