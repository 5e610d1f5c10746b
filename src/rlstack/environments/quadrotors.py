"""Quadrotor environments around external physics: any engine, the batch simulator, or a robot over topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import ArrayLike

from rlstack.arrays import Array, Array32, Index
from rlstack.environments.core import EnvironmentCore
from rlstack.environments.episode_sampler import NOISE_AHEAD, EpisodeSampler
from rlstack.errors import UserError
from rlstack.fused import zeros
from rlstack.kinds.quadrotor.simulation_vector import EpisodicQuadrotors
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE_WIDTH
from rlstack.sim.validation import checked_states
from rlstack.tasks.quadrotor.external_step import ExternalStep, Seen
from rlstack.tasks.quadrotor.step import NOISE_WIDTH

_LANES = 16
"""Widest vector of a processor, in values: with fewer robots kernels would copy all arrays."""


class QuadrotorCore(EnvironmentCore):
    """N robots in a task's episodes, independent of each other; an :class:`rlstack.environments.core.EnvironmentCore`.

    Args:
        task: Its configuration.
        robot: The quadrotor; for a family, its reference.
        shown: Kind of observation.
        vehicles: N robots.
        count: N.
    """

    def __init__(self, task: Any, robot: Quadrotor, shown: Seen, vehicles: EpisodicQuadrotors, count: int) -> None:
        self.task, self.robot, self.count = task, robot, count
        self.vehicles = vehicles
        self.step_kernels = step = ExternalStep(task, robot, task.pipeline(robot), shown)
        self.renders = vehicles.renders
        self.action_space = spaces.Box(-1.0, 1.0, (step.pipeline.action_size,), np.float32)
        boxes = {name: spaces.Box(-most, most, dtype=np.float32) for name, most in self._named(step.bounds).items()}
        columns = spaces.Box(-step.bounds, step.bounds, dtype=np.float32)
        self.observation_space = spaces.Dict(boxes) if boxes else columns
        self._max_steps = max(round(task.episode_s * task.rate_hz), 1)
        self._wide: dict[str, Array32] = {}
        self._state, self._parameters = self._rows("state", STATE_WIDTH), self._rows("parameters", PARAMETER_WIDTH)
        self._memory = self._rows("memory", step.memory_width)
        self._next_memory = self._rows("next_memory", step.memory_width)
        self._noise = self._rows("noise", NOISE_WIDTH)
        self._action = self._rows("action", step.pipeline.action_size)
        self._command = self._rows("command", len(robot.rotors))
        self._seen = self._rows("seen", step.width)
        names = (*step.terms, "lost")
        self._reward, self._lost, self._terms = (
            self._rows(name, rows) for name, rows in (("reward", 1), ("lost", 1), ("terms", len(names)))
        )
        self.reward, self.terms = self._reward[0], dict(zip(names, self._terms))
        self.terminated, self.truncated = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self._age = np.zeros(count, dtype=np.int64)
        self._noisy = any(vars(task.noise).values())
        self._follows = bool(step.window)
        if self._follows:
            self._goal = self._rows("goal", step.goal_width)
            self._next_goal = self._rows("next_goal", step.goal_width)
            self._path_step = np.zeros(count, dtype=np.int64)
            self._ahead = np.array([*step.window, 1, 0])
        self._see = step.see.prepare(self._wide)
        self._decide = step.decide.prepare(self._wide)
        self._judge = step.judge.prepare(self._wide)
        self._samplers: list[EpisodeSampler] = []
        self._paths = np.zeros((count, 1, 3), dtype=np.float32)

    def seed(self, seeds: Sequence[int]) -> None:
        """Give each robot its own generators for episodes and noise."""
        self._samplers = [EpisodeSampler(self.task, self.robot, seeding.np_random(s)[0], s) for s in seeds]
        self._noise_left = 0

    def begin(self, index: Index, state: Mapping[str, ArrayLike] | None = None, *, after_step: bool = False) -> None:
        """Start some robots' next episodes, and update their observations.

        A state is like that of :meth:`rlstack.interfaces.backend.Backend.reset`, relative to the task's origin.
        """
        if not after_step:
            self._renew_noise()
        given = None if state is None else _checked(state, len(index), len(self.robot.rotors))
        for k, number in enumerate(index.tolist()):
            episode = self._samplers[number].draw()
            if given is not None:
                episode = episode.starting({name: array[k : k + 1] for name, array in given.items()})
            self.vehicles.place(number, episode)
            if episode.path is not None:
                if self._paths.shape[1] != len(episode.path):
                    self._paths = np.zeros((self.count, *episode.path.shape), dtype=np.float32)
                self._paths[number] = episode.path
        self.vehicles.write_parameters(self._parameters)
        self._age[index], self.terminated[index], self.truncated[index] = 0, False, False
        self._memory[:, index] = 0.0
        if self._follows:
            self._path_step[index] = 0
            self._fill_goal(self._goal)
        self._read()
        others = self._seen.copy()
        self._see()
        others[:, index] = self._seen[:, index]
        self._seen[:] = others

    def _renew_noise(self) -> None:
        """Draw the noise of the next observation."""
        if not self._noisy:
            return
        if self._noise_left == 0:
            self._noise_ahead = np.stack([sampler.noise() for sampler in self._samplers], axis=-1)
            self._noise_left = NOISE_AHEAD
        self._noise[:] = self._noise_ahead[-self._noise_left]
        self._noise_left -= 1

    def step(self, actions: ArrayLike) -> None:
        """Advance one control period with actions (N, actions), which are clipped to -1..1."""
        self._action[:] = np.asarray(actions).T
        if not np.isfinite(self._action).all():
            raise ValueError("The action is not finite: the policy that made it has diverged.")
        self._decide()
        self.vehicles.step(self._command.T)
        self._age += 1
        self._read()
        self._renew_noise()
        if self._follows:
            self._path_step += 1
            self._fill_goal(self._next_goal)
        self._judge()
        self._memory[:] = self._next_memory
        if self._follows:
            self._goal[:] = self._next_goal
        self.reward, terms = self._reward[0].copy(), self._terms.copy()
        self.terms = dict(zip(self.terms, terms))
        self.terminated = self._lost[0] > 0.5
        self.truncated = (self._age >= self._max_steps) & ~self.terminated

    def observation(self) -> Any:
        """Return a copy of the observation: (N, columns), or arrays (N, ...) by signal."""
        seen = self._seen.T.copy()
        return self._named(seen) or seen

    def picture(self) -> Any:
        """Return the image (height, width, 3) uint8 of a camera that follows the first robot."""
        return self.vehicles.picture()

    def close(self) -> None:
        """Release the simulator."""
        self.vehicles.close()

    def _named(self, columns: Array32) -> dict[str, Array32]:
        """Return columns (..., width) by signal; empty for other kinds of observation."""
        found, start = {}, 0
        for name, shape in self.step_kernels.shapes.items():
            end = start + int(np.prod(shape))
            found[name] = columns[..., start:end].reshape(*columns.shape[:-1], *shape).copy()
            start = end
        return found

    def _rows(self, name: str, rows: int) -> Array32:
        """Return an array (rows, N) that kernels access by name, padded to their vector width."""
        self._wide[name] = zeros(rows, max(self.count, _LANES))
        return self._wide[name][:, : self.count]

    def _read(self) -> None:
        self.vehicles.write_state(self._state)
        self._state[-1] = self._age * (1.0 / self.task.rate_hz)

    def _fill_goal(self, rows: Array32) -> None:
        """Write the present path points, the reference after the step and its velocity."""
        index = np.minimum(self._path_step[:, None] + self._ahead, self._paths.shape[1] - 1)
        points = self._paths[np.arange(self.count)[:, None], index]  # (N, window + 2, 3)
        columns = points.transpose(2, 1, 0)
        columns[:, -1] = (columns[:, -2] - columns[:, -1]) * self.task.rate_hz
        rows[:] = columns.reshape(rows.shape)


def _checked(state: Mapping[str, ArrayLike], count: int, rotors: int) -> dict[str, Array]:
    try:
        rows = {
            name: np.broadcast_to(np.asarray(array, dtype=float), (count, np.shape(array)[-1]))
            for name, array in state.items()
        }
        return checked_states(rows, count, rotors)
    except (ValueError, TypeError, IndexError) as error:
        raise UserError(f"options: state: {error}") from error
