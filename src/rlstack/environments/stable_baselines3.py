"""A vector environment as stable-baselines3 takes it: one process, no copy of a robot's simulation each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from rlstack.environments.vector import TaskVectorEnvironment
from rlstack.errors import UserError

try:
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise UserError("stable-baselines3 is not installed: pip install 'stable-baselines3>=2.4'.") from error


class TaskVecEnv(VecEnv):  # type: ignore[misc]
    """Robots of a :class:`rlstack.environments.vector.TaskVectorEnvironment` for stable-baselines3's algorithms.

    What was seen last in an episode is in its ``info["terminal_observation"]``, and ``info["TimeLimit.truncated"]`` is
    true where time was over, so that the value of going on is counted. An episode's return and length are in
    ``info["episode"]``, for the progress that algorithms print; ``info["is_success"]`` is there where the task says so.
    With ``observation="goal"`` it serves ``HerReplayBuffer``.

    Args:
        environment: What ``gymnasium.make_vec`` gave, with :attr:`AutoresetMode.SAME_STEP`.

    Raises:
        UserError: It resets in another way.
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
        # stable-baselines3 gives a seed for each robot, or none
        given = self._seeds[0] if self._seeds and self._seeds[0] is not None else None
        seen, _ = self.environment.reset(seed=given)
        self._reset_seeds()
        self._return[:], self._length[:] = 0.0, 0
        return seen

    def step_async(self, actions: Any) -> None:
        """Keep the actions."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Let one control period pass."""
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
        """Refuse: robots have none of their own."""
        raise AttributeError(f"{attr_name} cannot be set for single robots of a vector environment")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call ``compute_reward``, which is for any of the robots."""
        if method_name != "compute_reward":
            raise AttributeError(f"single robots of a vector environment have no method {method_name}")
        return [self.environment.compute_reward(*args, **kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that none is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[Any]:
        """Return no pictures."""
        return []


class PolicyObservation(BaseFeaturesExtractor):  # type: ignore[misc]
    """Makes of an observation with goals what rlstack's own networks see, so that none is given more than the other.

    Args:
        observation_space: Of an environment made with ``observation="goal"``.
        environment: That one, which knows where the goal is in what is seen.
    """

    def __init__(self, observation_space: spaces.Dict, environment: Any) -> None:
        super().__init__(observation_space, features_dim=observation_space["observation"].shape[0])
        self._relabelled = environment.unwrapped.core.relabelled

    def forward(self, observations: dict[str, Any]) -> Any:
        """Return (n, columns)."""
        return self._relabelled(*(observations[name] for name in ("observation", "achieved_goal", "desired_goal")))
