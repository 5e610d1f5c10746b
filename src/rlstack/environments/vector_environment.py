"""A task as a Gymnasium vector environment: many robots in one simulation and process."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rlstack.arrays import Array, Mask
from rlstack.environments.environment_core import EnvironmentCore
from rlstack.environments.factory import make_core
from rlstack.errors import UserError, unknown_name


class TaskVectorEnvironment(VectorEnv):  # type: ignore[misc]
    """N robots at a task; see docs/environments.md.

    Quadrotor ``i`` of an environment seeded with ``s`` has the episodes of a single environment seeded with ``s + i``.
    With :attr:`AutoresetMode.SAME_STEP`, the default, the last observation and ``reward_terms`` of an episode are in
    ``info["final_obs"]`` and ``info["final_info"]``. :meth:`reset` takes the options ``reset_mask`` (N,) and ``state``.

    Args:
        num_envs: N.
        autoreset_mode: When the next episode starts after one has ended: ``"SameStep"``, ``"NextStep"``, or
            ``"Disabled"``.
        task: The task's name, or an existing core.
        settings: Arguments of :func:`rlstack.environments.factory.make_core`.

    Raises:
        UserError: Something is unknown, not allowed or not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        task: str | EnvironmentCore,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        if render_mode is not None:
            raise UserError("render_mode: a vector environment does not render: use a single one.")
        try:
            self._mode = AutoresetMode(autoreset_mode)
        except ValueError:
            raise unknown_name("autoreset_mode", str(autoreset_mode), [mode.value for mode in AutoresetMode]) from None
        self.core = core = make_core(task, num_envs, **settings) if isinstance(task, str) else task
        self.num_envs = num_envs = core.count
        fps = core.task.rate_hz
        self.metadata = {"render_modes": [], "render_fps": fps, "autoreset_mode": self._mode}  # type: ignore[misc]
        self.single_action_space, self.single_observation_space = core.action_space, core.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        if core.goals:
            self.compute_reward = core.compute_reward  # type: ignore[attr-defined]
        self._ended = np.ones(num_envs, dtype=bool)
        self._seeded = False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episodes.

        Args:
            seed: Seed of the first robot, incremented for each further one; or a list of all seeds.
            options: ``reset_mask`` (N,) bool: robots to reset; ``state``: start of quadrotors, arrays (width,) or
                (robots, width) by name.
        """
        given = options or {}
        index = np.arange(self.num_envs)
        if given.get("reset_mask") is not None:
            mask = np.asarray(given["reset_mask"])
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
                raise UserError(f"options: reset_mask must be {self.num_envs} booleans, one of them true.")
            index = np.flatnonzero(mask)
        if seed is not None or not self._seeded:
            self._seed(seed)
        self.core.begin(index, given.get("state"))
        self._ended[index] = False
        return self.core.observation(), {}

    def step(self, actions: Any) -> tuple[Any, Array, Mask, Mask, dict[str, Any]]:
        """Advance one control period; actions are clipped to -1..1."""
        core = self.core
        core.step(np.asarray(actions))
        reward, terminated, truncated = core.reward.astype(np.float64), core.terminated.copy(), core.truncated.copy()
        if self._mode is AutoresetMode.NEXT_STEP:  # actions of robots that ended in the last step are ignored
            began = self._ended
            reward[began], terminated[began], truncated[began] = 0.0, False, False
            if began.any():
                core.begin(np.flatnonzero(began), after_step=True)
            self._ended = terminated | truncated
            return core.observation(), reward, terminated, truncated, self._info(~began)
        ended = terminated | truncated
        if self._mode is AutoresetMode.DISABLED or not ended.any():
            return core.observation(), reward, terminated, truncated, self._info(np.ones_like(ended))
        info, final = self._info(~ended), np.full(self.num_envs, None, dtype=object)
        last, over = core.observation(), np.flatnonzero(ended)
        for k in over.tolist():
            final[k] = {name: array[k] for name, array in last.items()} if isinstance(last, dict) else last[k]
        info["final_obs"], info["_final_obs"] = final, ended
        info["final_info"], info["_final_info"] = self._info(ended.copy()), ended.copy()
        core.begin(over, after_step=True)
        return core.observation(), reward, terminated, truncated, info

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulator."""
        if hasattr(self, "core"):
            self.core.close()

    def _info(self, whose: Mask) -> dict[str, Any]:
        """Return the last step's info in the format of Gymnasium's vector environments, with masks under ``_``."""
        terms = {**self.core.terms, **{f"_{name}": whose for name in self.core.terms}}
        info: dict[str, Any] = {"reward_terms": terms, "_reward_terms": whose}
        return info if self.core.success is None else {**info, "is_success": self.core.success, "_is_success": whose}

    def _seed(self, seed: Any) -> None:
        if seed is None or isinstance(seed, (int, np.integer)):
            super().reset(seed=None if seed is None else int(seed))
            first = self.np_random_seed or 0
            seeds = [first + k for k in range(self.num_envs)]
        else:
            seeds = [int(s) for s in seed]
            if len(seeds) != self.num_envs:
                raise UserError(f"seed: {len(seeds)} seeds for {self.num_envs} robots: give one, or one for each.")
        self.core.seed(seeds)
        self._seeded = True
