"""Adapter of vector environments to stable-baselines3's VecEnv, in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from rlstack.environments.vector_environment import TaskVectorEnvironment
from rlstack.errors import UserError

try:
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise UserError("stable-baselines3 is not installed: pip install 'stable-baselines3>=2.4'.") from error


class TaskVecEnv(VecEnv):  # type: ignore[misc]
    """A :class:`.vector_environment.TaskVectorEnvironment` for stable-baselines3's algorithms.

    The last observation of an episode is in ``info["terminal_observation"]``, and ``info["TimeLimit.truncated"]`` is
    true after a time-out, so that values are bootstrapped. An episode's return and length are in
    ``info["episode"]``, for progress logs; ``info["is_success"]`` exists if the task reports it. With
    ``observation="goal"`` it works with ``HerReplayBuffer``.

    Args:
        environment: Result of ``gymnasium.make_vec``, with :attr:`AutoresetMode.SAME_STEP`.

    Raises:
        UserError: It has another reset mode.
    """

    def __init__(self, environment: Any) -> None:
        self.environment: TaskVectorEnvironment = environment.unwrapped
        if environment.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
            raise UserError("autoreset_mode: stable-baselines3 resets in the same step: make it with SameStep.")
        self.render_mode = None
        super().__init__(environment.num_envs, environment.single_observation_space, environment.single_action_space)
        self._return, self._length = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=np.int64)

    def reset(self) -> Any:
        """Return the first observations."""
        # stable-baselines3 passes a seed for each robot, or none
        given = self._seeds[0] if self._seeds and self._seeds[0] is not None else None
        seen, _ = self.environment.reset(seed=given)
        self._reset_seeds()
        self._return[:], self._length[:] = 0.0, 0
        return seen

    def step_async(self, actions: Any) -> None:
        """Keep the actions."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Advance one control period."""
        seen, reward, terminated, truncated, info = self.environment.step(self._actions)
        done = terminated | truncated
        self._return += reward
        self._length += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for k in np.flatnonzero(done).tolist():
            infos[k] = {
                "terminal_observation": info["final_obs"][k],
                "TimeLimit.truncated": bool(truncated[k]),
                "episode": {"r": float(self._return[k]), "l": int(self._length[k])},
            }
            if "is_success" in info["final_info"]:
                infos[k]["is_success"] = bool(info["final_info"]["is_success"][k])
        self._return[done], self._length[done] = 0.0, 0
        return seen, reward.astype(np.float32), done, infos

    def close(self) -> None:
        """Release the simulator."""
        self.environment.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the environment once for each robot."""
        found = self.render_mode if attr_name == "render_mode" else getattr(self.environment, attr_name)
        return [found for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise an error: single robots have no attributes."""
        raise AttributeError(f"{attr_name} cannot be set for single robots of a vector environment")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call ``compute_reward``, which is the same for all robots."""
        if method_name != "compute_reward":
            raise AttributeError(f"single robots of a vector environment have no method {method_name}")
        return [self.environment.compute_reward(*args, **kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each robot."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[Any]:
        """Return no images."""
        return []


class PolicyObservation(BaseFeaturesExtractor):  # type: ignore[misc]
    """Converts a goal observation to the observation of rlstack's own networks, for a fair comparison.

    Args:
        observation_space: Observation space of an environment with ``observation="goal"``.
        environment: That environment, which relabels observations.
    """

    def __init__(self, observation_space: spaces.Dict, environment: Any) -> None:
        super().__init__(observation_space, features_dim=observation_space["observation"].shape[0])
        self._relabelled = environment.unwrapped.core.relabelled

    def forward(self, observations: dict[str, Any]) -> Any:
        """Return (n, columns)."""
        return self._relabelled(*(observations[name] for name in ("observation", "achieved_goal", "desired_goal")))
