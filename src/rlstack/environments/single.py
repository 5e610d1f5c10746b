"""A task as a Gymnasium environment: one robot in any simulator that flies in process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from rlstack.environments.flights import Flights
from rlstack.environments.settings import make_setting
from rlstack.environments.spaces import action_space, observation_space
from rlstack.environments.vehicles import make_vehicles
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor

RENDER_MODES = ("rgb_array",)

ONE = np.zeros(1, dtype=np.intp)
"""The index of the only robot."""


class TaskEnvironment(gymnasium.Env):  # type: ignore[misc]
    """One robot that flies a task; see docs/environments.md.

    ``reset(options={"state": {...}})`` starts in a state by name instead of one that the task draws, relative to the
    task's origin. ``step`` gives the weighted terms of the reward in ``info["reward_terms"]``.

    Args:
        task: The task's name.
        backend: ``"batch"``, ``"mujoco"``, ``"pybullet"`` or another whose engine flies in process.
        robot: A quadrotor's name or file.
        observation: ``"policy"``: what the policy's network sees; ``"signals"``: a dictionary of the policy's inputs
            in SI units. A mapping: the task's settings called ``observation``.
        world: Of an engine, such as ``"warehouse:7"``.
        physics_rate_hz: Physics steps a second.
        height_m: Of the task's origin over the start place of the world.
        render_mode: ``"rgb_array"`` or None.
        settings: The task's, by name, such as ``rate_hz`` and ``episode_s``.

    Raises:
        UserError: Something is unknown, not allowed or not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": 30}

    def __init__(
        self,
        task: str,
        *,
        backend: str = "batch",
        robot: str | Quadrotor = "crazyflie",
        observation: str | Mapping[str, Any] = "policy",
        world: str | Path | None = None,
        physics_rate_hz: float | None = None,
        height_m: float | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        self.render_mode = None  # until all else is right, as Gymnasium looks at what failed half-way
        setting = make_setting(task, robot, observation, settings)
        vehicles = make_vehicles(
            backend,
            setting.robot,
            1,
            setting.task,
            world=world,
            physics_rate_hz=physics_rate_hz,
            height_m=height_m,
        )
        modes = list(RENDER_MODES) if vehicles.renders else []
        if render_mode is not None and render_mode not in modes:
            vehicles.close()
            raise UserError(
                f"render_mode: '{render_mode}' is not allowed with the backend '{backend}': must be"
                f" {' or '.join([*modes, 'None'])}."
            )
        self.render_mode = render_mode
        self.metadata = {"render_modes": modes, "render_fps": setting.task.rate_hz}  # type: ignore[misc]
        self.flights = Flights(setting, vehicles, 1)
        self.action_space, self.observation_space = action_space(setting.step), observation_space(setting.step)
        self._seeded = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode; return what is seen, and an empty dictionary."""
        super().reset(seed=seed)
        flights = self.flights
        if seed is not None or not self._seeded:
            flights.seed([self.np_random], [noise_seed(self.np_random_seed)])
            self._seeded = True
        flights.renew_noise()
        flights.begin(ONE, (options or {}).get("state"))
        return unbatched(flights.observation()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Fly one control period; an action is clipped to -1..1."""
        return step_alone(self.flights, action)

    def render(self) -> Any:
        """Return the picture of a camera that follows the robot, (height, width, 3) uint8."""
        return None if self.render_mode is None else self.flights.vehicles.picture()

    def close(self) -> None:
        """Release the simulator; a second call does nothing."""
        if hasattr(self, "flights"):
            self.flights.close()


def step_alone(flights: Flights, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Fly one robot's next control period; return what Gymnasium's ``step`` does."""
    flights.step(np.asarray(action)[None])
    terms = dict(zip(flights.term_names, flights.terms[:, 0].tolist()))
    ended = bool(flights.lost[0]), bool(flights.timed_out[0])
    return unbatched(flights.observation()), float(flights.reward[0, 0]), *ended, {"reward_terms": terms}


def unbatched(seen: Any) -> Any:
    """Return what one robot sees, without the axis of robots."""
    return {name: array[0] for name, array in seen.items()} if isinstance(seen, dict) else seen[0]


def noise_seed(seed: int | None) -> int:
    """Return a seed for the noise, which has a generator of its own."""
    return 0 if seed is None or seed < 0 else seed
