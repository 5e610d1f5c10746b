"""A task as a Gymnasium vector environment: many robots in one simulation, in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rlstack.arrays import Mask
from rlstack.environments.flights import Flights
from rlstack.environments.settings import make_setting
from rlstack.environments.spaces import action_space, observation_space
from rlstack.environments.vehicles import make_vehicles
from rlstack.errors import UserError, unknown_name
from rlstack.kinds.quadrotor.spec import Quadrotor


class TaskVectorEnvironment(VectorEnv):  # type: ignore[misc]
    """N robots that fly a task, each as if alone; see docs/environments.md.

    Robot ``i`` of one that was seeded with ``s`` flies the episodes of a single environment seeded with ``s + i``.
    With :attr:`AutoresetMode.SAME_STEP`, the default, what was seen last and the last ``reward_terms`` are in
    ``info["final_obs"]`` and ``info["final_info"]``. :meth:`reset` takes the options ``reset_mask`` (N,) and ``state``.

    Args:
        num_envs: N.
        autoreset_mode: When a flight that has ended is followed by the next: ``"SameStep"``, ``"NextStep"``, or
            ``"Disabled"``.
        task: This and the others are as of :class:`rlstack.environments.single.TaskEnvironment`.

    Raises:
        UserError: Something is unknown, not allowed or not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        backend: str = "batch",
        robot: str | Quadrotor = "crazyflie",
        observation: str | Mapping[str, Any] = "policy",
        world: str | Path | None = None,
        physics_rate_hz: float | None = None,
        height_m: float | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        if render_mode is not None:
            raise UserError("render_mode: a vector environment draws no pictures: take a single one for that.")
        try:
            self._mode = AutoresetMode(autoreset_mode)
        except ValueError:
            raise unknown_name("autoreset_mode", str(autoreset_mode), [mode.value for mode in AutoresetMode]) from None
        setting = make_setting(task, robot, observation, settings)
        vehicles = make_vehicles(
            backend,
            setting.robot,
            num_envs,
            setting.task,
            world=world,
            physics_rate_hz=physics_rate_hz,
            height_m=height_m,
        )
        self.num_envs = num_envs
        fps = setting.task.rate_hz
        self.metadata = {"render_modes": [], "render_fps": fps, "autoreset_mode": self._mode}  # type: ignore[misc]
        self.flights = Flights(setting, vehicles, num_envs)
        self.single_action_space, self.single_observation_space = (
            action_space(setting.step),
            observation_space(setting.step),
        )
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._all = np.arange(num_envs)
        self._ended = np.ones(num_envs, dtype=bool)
        self._seeded = False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episodes.

        Args:
            seed: Of the first robot, each following has one more; or a list with that of each.
            options: ``reset_mask`` (N,) bool: whose; ``state``: where they start, arrays (width,) or (robots, width)
                by name.
        """
        flights, given = self.flights, options or {}
        index = self._all
        if given.get("reset_mask") is not None:
            mask = np.asarray(given["reset_mask"])
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
                raise UserError(f"options: reset_mask must be {self.num_envs} booleans, one of them true.")
            index = np.flatnonzero(mask)
        if seed is not None or not self._seeded:
            self._seed(seed)
        flights.renew_noise()
        flights.begin(index, given.get("state"))
        self._ended[index] = False
        return flights.observation(), {}

    def step(self, actions: Any) -> tuple[Any, NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Fly one control period; actions are clipped to -1..1."""
        flights = self.flights
        flights.step(np.asarray(actions))
        reward = flights.reward[0].astype(np.float64)
        lost, timed_out = flights.lost, flights.timed_out
        terms = dict(zip(flights.term_names, flights.terms.copy()))
        if self._mode is AutoresetMode.NEXT_STEP:
            return self._then_begin(reward, lost, timed_out, terms)
        ended = lost | timed_out
        if self._mode is AutoresetMode.DISABLED or not ended.any():
            return flights.observation(), reward, lost, timed_out, _terms(terms, np.ones(self.num_envs, dtype=bool))
        lost, timed_out = lost.copy(), timed_out.copy()
        info = _terms(terms, ~ended)
        final = np.full(self.num_envs, None, dtype=object)
        last = flights.observation()
        over = np.flatnonzero(ended)
        for k in over.tolist():
            final[k] = {name: array[k] for name, array in last.items()} if isinstance(last, dict) else last[k]
        info["final_obs"], info["_final_obs"] = final, ended
        info["final_info"], info["_final_info"] = _terms(terms, ended.copy()), ended.copy()
        flights.begin(over)
        return flights.observation(), reward, lost, timed_out, info

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulator."""
        if hasattr(self, "flights"):
            self.flights.close()

    def _then_begin(
        self, reward: NDArray[np.float64], lost: Mask, timed_out: Mask, terms: dict[str, Any]
    ) -> tuple[Any, NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Start the episodes of those whose last ended a step ago; their actions have been for nothing."""
        began = self._ended
        lost, timed_out = lost & ~began, timed_out & ~began
        if began.any():
            reward[began] = 0.0
            self.flights.begin(np.flatnonzero(began))
        self._ended = lost | timed_out
        return self.flights.observation(), reward, lost, timed_out, _terms(terms, ~began)

    def _seed(self, seed: Any) -> None:
        if seed is None or isinstance(seed, (int, np.integer)):
            super().reset(seed=None if seed is None else int(seed))
            first = self.np_random_seed or 0
            seeds = [first + k for k in range(self.num_envs)]
        else:
            seeds = [int(s) for s in seed]
            if len(seeds) != self.num_envs:
                raise UserError(f"seed: {len(seeds)} seeds for {self.num_envs} robots: give one, or one for each.")
        self.flights.seed([seeding.np_random(s)[0] for s in seeds], seeds)
        self._seeded = True


def _terms(terms: dict[str, Any], whose: Mask) -> dict[str, Any]:
    """Return the information on the reward as Gymnasium's vector environments have it, masks under ``_``."""
    masked = {**terms, **{f"_{name}": whose for name in terms}}
    return {"reward_terms": masked, "_reward_terms": whose}
