"""N flights of a task at once, as arrays: what single and vector environments have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array32, Index
from rlstack.environments.deck import NOISE_AHEAD, Deck
from rlstack.environments.settings import Setting
from rlstack.environments.vehicles import Vehicles
from rlstack.errors import UserError
from rlstack.fused import zeros
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE_WIDTH
from rlstack.sim.validation import checked_states
from rlstack.tasks.quadrotor.step import NOISE_WIDTH

State = Mapping[str, ArrayLike]

_LANES = 16
"""Numbers that a processor computes with at once, at most: with fewer robots kernels would copy all arrays."""


class Flights:
    """N robots that fly a task's episodes.

    After :meth:`begin` and :meth:`step`, :attr:`seen`, :attr:`reward`, :attr:`terms`, :attr:`lost` and
    :attr:`timed_out` hold what came of it until the next call.

    Args:
        setting: The task, the robot and the kernels.
        vehicles: N robots.
        count: N.
    """

    def __init__(self, setting: Setting, vehicles: Vehicles, count: int) -> None:
        self.setting, self.vehicles, self.count = setting, vehicles, count
        self.task, step = setting.task, setting.step
        self._period_s = 1.0 / self.task.rate_hz
        self.term_names: tuple[str, ...] = (*step.terms, "lost")
        self._wide: dict[str, Array32] = {}
        self._state, self._parameters = self._rows("state", STATE_WIDTH), self._rows("parameters", PARAMETER_WIDTH)
        self._memory = self._rows("memory", step.memory_width)
        self._next_memory = self._rows("next_memory", step.memory_width)
        self._noise = self._rows("noise", NOISE_WIDTH)
        self._action = self._rows("action", step.pipeline.action_size)
        self._command = self._rows("command", len(setting.robot.rotors))
        self.seen = self._rows("seen", step.width)
        """(width, N) what is seen now."""
        self.reward = self._rows("reward", 1)
        """(1, N) of the last step."""
        self.terms = self._rows("terms", len(self.term_names))
        """(terms, N) of :attr:`term_names`, weighted, of the last step."""
        self.age = np.zeros(count, dtype=np.int64)
        """(N,) steps since the beginning of each flight."""
        self.lost = np.zeros(count, dtype=bool)
        """(N,) whose flight has ended as lost."""
        self.timed_out = np.zeros(count, dtype=bool)
        """(N,) whose time is over, of those that are not lost."""
        self._lost = self._rows("lost", 1)
        self._max_steps = setting.max_steps
        self._noisy = any(vars(self.task.noise).values())
        self._follows = bool(step.window)
        if self._follows:
            self._goal = self._rows("goal", step.goal_width)
            self._next_goal = self._rows("next_goal", step.goal_width)
            self._path_step = np.zeros(count, dtype=np.int64)
            self._ahead = np.array([*step.window, 1, 0])
            self._robots = np.arange(count)[:, None]
        self._see = step.see.prepare(self._wide)
        self._decide = step.decide.prepare(self._wide)
        self._judge = step.judge.prepare(self._wide)
        self._decks: list[Deck] = []
        self._paths = np.zeros((count, 1, 3), dtype=np.float32)

    def seed(self, randoms: Sequence[np.random.Generator], seeds: Sequence[int]) -> None:
        """Give each robot its generator of episodes and its seed of noise."""
        setting = self.setting
        self._decks = [Deck(self.task, setting.robot, r, s) for r, s in zip(randoms, seeds)]
        self._noise_left = 0

    def begin(self, index: Index, state: State | None = None) -> None:
        """Start some robots' next episodes, and see anew what those robots see.

        Args:
            index: Which robots.
            state: Where they start instead, (width,) or (robots, width) by name as of
                :meth:`rlstack.interfaces.backend.Backend.reset`, relative to the task's origin.

        Raises:
            UserError: The state is not allowed.
        """
        rotors = len(self.setting.robot.rotors)
        given = None if state is None else _checked(state, len(index), rotors)
        for k, number in enumerate(index.tolist()):
            episode = self._decks[number].draw()
            if given is not None:
                episode = episode.starting({name: array[k : k + 1] for name, array in given.items()})
            self.vehicles.place(number, episode)
            if episode.path is not None:
                if self._paths.shape[1] != len(episode.path):
                    self._paths = np.zeros((self.count, *episode.path.shape), dtype=np.float32)
                self._paths[number] = episode.path
        self.vehicles.parameters(self._parameters)
        self.age[index], self.lost[index], self.timed_out[index] = 0, False, False
        self._memory[:, index] = 0.0
        if self._follows:
            self._path_step[index] = 0
            self._fill_goal(self._goal)
        self._read()
        if len(index) == self.count:
            self._see()
            return
        others = self.seen.copy()
        self._see()
        others[:, index] = self.seen[:, index]
        self.seen[:] = others

    def renew_noise(self) -> None:
        """Draw the noise of the next observation, before :meth:`begin` where that is not part of a step."""
        if not self._noisy:
            return
        if self._noise_left == 0:
            self._noise_ahead = np.stack([deck.noise() for deck in self._decks], axis=-1)
            self._noise_left = NOISE_AHEAD
        self._noise[:] = self._noise_ahead[-self._noise_left]
        self._noise_left -= 1

    def step(self, actions: NDArray[np.floating]) -> None:
        """Fly one control period under actions (N, actions) in -1..1, beyond which they are clipped.

        Raises:
            ValueError: An action is not finite, or the shape is wrong.
        """
        self._action[:] = actions.T
        if not np.isfinite(self._action).all():
            raise ValueError("The action is not finite: the policy that made it has diverged.")
        self._decide()
        self.vehicles.step(self._command)
        self.age += 1
        self._read()
        self.renew_noise()
        if self._follows:
            self._path_step += 1
            self._fill_goal(self._next_goal)
        self._judge()
        self._memory[:] = self._next_memory
        if self._follows:
            self._goal[:] = self._next_goal
        self.lost = self._lost[0] > 0.5
        self.timed_out = (self.age >= self._max_steps) & ~self.lost

    def observation(self) -> Any:
        """Return a copy of what is seen: (N, columns), or arrays (N, ...) by signal."""
        seen = self.seen.T.copy()
        if self.setting.step.kind == "policy":
            return seen
        found, start = {}, 0
        for name, shape in self.setting.step.shapes.items():
            end = start + int(np.prod(shape))
            found[name] = seen[:, start:end].reshape(len(seen), *shape).copy()
            start = end
        return found

    def close(self) -> None:
        """Release the simulator."""
        self.vehicles.close()

    def _rows(self, name: str, rows: int) -> Array32:
        """Return an array (rows, N) that kernels know by name; they have it with as many robots as they do at once."""
        self._wide[name] = zeros(rows, max(self.count, _LANES))
        return self._wide[name][:, : self.count]

    def _read(self) -> None:
        self.vehicles.read(self._state)
        self._state[-1] = self.age * self._period_s

    def _fill_goal(self, rows: Array32) -> None:
        """Write what is to be followed now: the window's points, the reference after the step and its velocity."""
        index = np.minimum(self._path_step[:, None] + self._ahead, self._paths.shape[1] - 1)
        points = self._paths[self._robots, index]  # (N, window + 2, 3)
        columns = points.transpose(2, 1, 0)
        columns[:, -1] = (columns[:, -2] - columns[:, -1]) * self.task.rate_hz
        rows[:] = columns.reshape(rows.shape)


def _checked(state: State, count: int, rotors: int) -> dict[str, NDArray[np.float64]]:
    try:
        rows = {
            name: np.broadcast_to(np.asarray(array, dtype=float), (count, np.shape(array)[-1]))
            for name, array in state.items()
        }
        return checked_states(rows, count, rotors)
    except (ValueError, TypeError, IndexError) as error:
        raise UserError(f"options: state: {error}") from error
