"""A task as a Gymnasium environment with one robot."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np

from rlstack.environments.environment_core import EnvironmentCore
from rlstack.environments.factory import make_core
from rlstack.errors import UserError
from rlstack.sim.vector import BATCH

_ONE = np.zeros(1, dtype=np.intp)
"""Index of the only robot."""


class TaskEnvironment(gymnasium.Env):  # type: ignore[misc]
    """One robot at a task; see docs/environments.md.

    ``step`` returns the weighted reward terms in ``info["reward_terms"]``, and ``info["is_success"]`` if the task
    reports it. ``reset(options={"state": {...}})`` starts a quadrotor in a given state by name instead of a random one,
    relative to the task's origin.

    Args:
        task: The task's name.
        render_mode: ``"rgb_array"`` or None.
        settings: Arguments of :func:`rlstack.environments.factory.make_core`, including the task's settings.

    Raises:
        UserError: Something is unknown, not allowed or not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, task: str, *, render_mode: str | None = None, **settings: Any) -> None:
        self.render_mode = None  # set until the constructor succeeds: Gymnasium reads it after a failure
        core = make_core(task, 1, **settings)
        modes = ["rgb_array"] if core.renders else []
        if render_mode is not None and render_mode not in modes:
            core.close()
            raise UserError(
                f"render_mode: '{render_mode}' is not allowed with the backend '{settings.get('backend') or BATCH}':"
                f" must be {' or '.join([*modes, 'None'])}."
            )
        self.render_mode = render_mode
        self._use(core, modes)

    def _use(self, core: EnvironmentCore, modes: list[str]) -> None:
        self.core, self._seeded = core, False
        self.metadata = {"render_modes": modes, "render_fps": core.task.rate_hz}  # type: ignore[misc]
        self.action_space, self.observation_space = core.action_space, core.observation_space
        if core.goals:  # marks an environment with goals
            self.compute_reward = core.compute_reward  # type: ignore[attr-defined]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode; return the observation and an empty dictionary."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self.core.seed([max(self.np_random_seed, 0)])
            self._seeded = True
        self.core.begin(_ONE, (options or {}).get("state"))
        return _unbatched(self.core.observation()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance one control period; the action is clipped to -1..1."""
        core = self.core
        core.step(np.asarray(action)[None])
        info: dict[str, Any] = {"reward_terms": {name: float(term[0]) for name, term in core.terms.items()}}
        if core.success is not None:
            info["is_success"] = bool(core.success[0])
        ended = bool(core.terminated[0]), bool(core.truncated[0])
        return _unbatched(core.observation()), float(core.reward[0]), *ended, info

    def render(self) -> Any:
        """Return the image (height, width, 3) uint8 of a camera that follows the robot."""
        return None if self.render_mode is None else self.core.render()

    def close(self) -> None:
        """Release the simulator; a second call is a no-op."""
        if hasattr(self, "core"):
            self.core.close()


def _unbatched(observation: Any) -> Any:
    return {name: array[0] for name, array in observation.items()} if isinstance(observation, dict) else observation[0]
