"""Quadrotor environments around external physics: any engine, the batch simulator, or a robot over topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import ArrayLike

from rlstack.arrays import Array, Array32, Index
from rlstack.environments.environment_core import EnvironmentCore
from rlstack.errors import UserError
from rlstack.fused import zeros
from rlstack.kinds.quadrotor.simulation_vector import EpisodeStart, EpisodicQuadrotors
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, STATE_WIDTH, pack_parameters, pack_state
from rlstack.sim.input_checks import checked_states
from rlstack.tasks.quadrotor.external_step import ExternalStep, ObservationKind
from rlstack.tasks.quadrotor.step import NOISE_WIDTH

AHEAD = 30
"""Episodes drawn at a time: drawing one takes nearly as long as drawing all. Tasks split kinds of paths into tenths and
thirds."""

NOISE_AHEAD = 128
"""Number of observations whose noise is drawn at a time."""

_NOISE_STREAM = 0x0B5E

_LANES = 16
"""Widest vector of a processor, in values: with fewer robots kernels would copy all arrays."""


class QuadrotorCore(EnvironmentCore):
    """N robots in episodes of a task, independent of each other, around external physics.

    Args:
        task: Its configuration.
        robot: The quadrotor; for a family, its reference.
        kind: Kind of observation.
        simulator: N robots.
        count: N.
    """

    def __init__(
        self, task: Any, robot: Quadrotor, kind: ObservationKind, simulator: EpisodicQuadrotors, count: int
    ) -> None:
        self.task, self.robot, self.count = task, robot, count
        self.simulator = simulator
        self.step_kernels = step = ExternalStep(task, robot, task.pipeline(robot), kind)
        self.renders = simulator.renders
        self.action_space = spaces.Box(-1.0, 1.0, (step.pipeline.action_size,), np.float32)
        boxes = {name: spaces.Box(-most, most, dtype=np.float32) for name, most in self._named(step.bounds).items()}
        columns = spaces.Box(-step.bounds, step.bounds, dtype=np.float32)
        self.observation_space = spaces.Dict(boxes) if boxes else columns
        self._max_steps = max(round(task.episode_s * task.rate_hz), 1)
        self._arrays: dict[str, Array32] = {}
        self._state, self._parameters = self._rows("state", STATE_WIDTH), self._rows("parameters", PARAMETER_WIDTH)
        self._memory = self._rows("memory", step.memory_width)
        self._next_memory = self._rows("next_memory", step.memory_width)
        self._noise = self._rows("noise", NOISE_WIDTH)
        self._action = self._rows("action", step.pipeline.action_size)
        self._command = self._rows("command", len(robot.rotors))
        self._observation = self._rows("observation", step.width)
        names = (*step.terms, "lost")
        self._reward, self._lost, self._terms = (
            self._rows(name, rows) for name, rows in (("reward", 1), ("lost", 1), ("terms", len(names)))
        )
        self.reward, self.terms = self._reward[0], dict(zip(names, self._terms))
        self.terminated, self.truncated = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self._age = np.zeros(count, dtype=np.int64)
        self._noisy = any(vars(task.noise).values())
        self._has_path = bool(step.window)
        if self._has_path:
            self._goal = self._rows("goal", step.goal_width)
            self._next_goal = self._rows("next_goal", step.goal_width)
            self._path_step = np.zeros(count, dtype=np.int64)
            self._ahead = np.array([*step.window, 1, 0])
        self._observe = step.observation_kernel.prepare(self._arrays)
        self._act = step.command_kernel.prepare(self._arrays)
        self._evaluate = step.reward_kernel.prepare(self._arrays)
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
            self.simulator.place(number, episode)
            if episode.path is not None:
                if self._paths.shape[1] != len(episode.path):
                    self._paths = np.zeros((self.count, *episode.path.shape), dtype=np.float32)
                self._paths[number] = episode.path
        self.simulator.write_parameters(self._parameters)
        self._age[index], self.terminated[index], self.truncated[index] = 0, False, False
        self._memory[:, index] = 0.0
        if self._has_path:
            self._path_step[index] = 0
            self._fill_goal(self._goal)
        self._read_state()
        kept = self._observation.copy()
        self._observe()
        kept[:, index] = self._observation[:, index]
        self._observation[:] = kept

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
        self._act()
        self.simulator.step(self._command.T)
        self._age += 1
        self._read_state()
        self._renew_noise()
        if self._has_path:
            self._path_step += 1
            self._fill_goal(self._next_goal)
        self._evaluate()
        self._memory[:] = self._next_memory
        if self._has_path:
            self._goal[:] = self._next_goal
        self.reward, terms = self._reward[0].copy(), self._terms.copy()
        self.terms = dict(zip(self.terms, terms))
        self.terminated = self._lost[0] > 0.5
        self.truncated = (self._age >= self._max_steps) & ~self.terminated

    def observation(self) -> Any:
        """Return a copy of the observation: (N, columns), or arrays (N, ...) by signal."""
        columns = self._observation.T.copy()
        return self._named(columns) or columns

    def render(self) -> Any:
        """Return the image (height, width, 3) uint8 of a camera that follows the first robot."""
        return self.simulator.render()

    def close(self) -> None:
        """Release the simulator."""
        self.simulator.close()

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
        self._arrays[name] = zeros(rows, max(self.count, _LANES))
        return self._arrays[name][:, : self.count]

    def _read_state(self) -> None:
        self.simulator.write_state(self._state)
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


@dataclass(frozen=True)
class Episode(EpisodeStart):
    """One robot's episode.

    Args:
        path: (samples, 3) m at the control rate, if the task has one.
    """

    path: Array32 | None

    def starting(self, state: dict[str, Array]) -> Episode:
        """Return the same episode with another start state, (1, width) by name."""
        return replace(self, state=state, state_row=pack_state(state, 1)[0])


class EpisodeSampler:
    """Draws one robot's episodes, some ahead.

    Args:
        task: The task.
        robot: The quadrotor.
        random: Generator of the episodes.
        seed: Seed of the noise.
    """

    def __init__(self, task: Any, robot: Quadrotor, random: np.random.Generator, seed: int) -> None:
        self._task, self._robot, self._random = task, robot, random
        self._noise_random = np.random.default_rng([seed, _NOISE_STREAM])
        self._next = AHEAD
        self._has_paths = bool(task.path_window)

    def draw(self) -> Episode:
        """Return the next episode."""
        if self._next == AHEAD:
            self._scenarios = drawn = self._task.sample(self._random, AHEAD, self._robot)
            self._states = pack_state(drawn.state, AHEAD)
            self._parameters = pack_parameters(self._robot, drawn.perturbation)
            if self._has_paths:
                points = self._task.sample_paths(self._random, AHEAD, self._robot).position
                self._paths = points[self._random.permutation(AHEAD)].astype(np.float32)
            self._next = 0
        k, self._next = self._next, self._next + 1
        one = slice(k, k + 1)
        return Episode(
            {name: array[one] for name, array in self._scenarios.state.items()},
            self._scenarios.perturbation.take(one),
            self._states[k],
            self._parameters[k],
            self._paths[k] if self._has_paths else None,
        )

    def noise(self) -> Array32:
        """Return unit normals (NOISE_AHEAD, NOISE_WIDTH) for as many observations."""
        return self._noise_random.standard_normal((NOISE_AHEAD, NOISE_WIDTH), dtype=np.float32)
