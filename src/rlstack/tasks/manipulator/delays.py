"""Late observations and commands of N worlds, by ring buffers over physics steps."""

from __future__ import annotations

import math

import numpy as np

from rlstack.arrays import Array, Index
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator

_ROUNDING_S = 1e-9


class Delays:
    """The past of N worlds; it costs nothing while no delay is set.

    It is what cameras look at, too: their images are as late as all else; see :class:`.image_streams.Worlds`.

    Args:
        worlds: The worlds.
    """

    def __init__(self, worlds: MujocoSimulator) -> None:
        self._worlds, self._step_s = worlds, float(worlds.model.opt.timestep)
        self._seen, self._sent = np.zeros(worlds.count, np.intp), np.zeros(worlds.count, np.intp)
        """(N,) delays of observations and of commands, physics steps."""
        self._states = worlds.state[:, None]
        """(N, kept + 1, width) states after past physics steps, newest last; time is the first column."""
        self._commands = worlds.joint_position[:, None]
        """(N, kept + 1, joints) past commands, newest last."""

    def begin(self, index: Index, observation_s: Array, command_s: Array) -> None:
        """Set the delays (n,) s of some worlds, which start now: they were at rest before, and hold their joints."""
        self._seen[index] = np.rint(observation_s / self._step_s)
        self._sent[index] = np.rint(command_s / self._step_s)
        if self._states.shape[1] == 1:  # nothing was late, so nothing was kept
            self._states = self._worlds.state[:, None].copy()
        latest = int(self._seen.max())
        self._states = _longer(self._states, latest + self._worlds.steps if latest else 0)
        self._commands = _longer(self._commands, math.ceil(self._sent.max() / self._worlds.steps))
        self._states[index] = self._worlds.state[index, None]
        self._commands[index] = self._worlds.joint_position[index, None]

    def step(self, command: Array) -> None:
        """Step the worlds one control period under ``command`` (N, joints), rad or m, and those before it."""
        worlds, kept = self._worlds, self._commands.shape[1]
        if kept == 1:
            worlds.step(command)
        else:
            self._commands = np.concatenate([self._commands[:, 1:], command[:, None]], axis=1)
            behind = -((np.arange(worlds.steps) - self._sent[:, None]) // worlds.steps)  # (N, steps) periods ago
            late = kept - 1 - np.maximum(behind, 0)
            worlds.step(self._commands[np.arange(worlds.count)[:, None], late])
        if (kept := self._states.shape[1]) > 1:
            self._states = np.concatenate([self._states, worlds.passed], axis=1)[:, -kept:]

    @property
    def state(self) -> Array:
        """(N, width) the states that observations are of now."""
        if self._states.shape[1] == 1:
            return self._worlds.state
        return self._states[np.arange(self._worlds.count), self._states.shape[1] - 1 - self._seen]

    @property
    def time_s(self) -> Array:
        """(N,) time since each world's start of what observations are of now, s."""
        return self.state[:, 0]

    def state_at(self, world: int, time_s: float) -> Array:
        """Return the state (width,) of a world at a time in the control period before what observations are of now."""
        if self._states.shape[1] == 1:
            return self._worlds.state_at(world, time_s)
        last = self._states.shape[1] - 1 - int(self._seen[world])
        track = self._states[world, last + 1 - self._worlds.steps : last + 1]
        return np.asarray(track[min(int(np.searchsorted(track[:, 0], time_s - _ROUNDING_S)), len(track) - 1)])

    def state_dict(self) -> dict[str, Array]:
        """Return the state needed to resume exactly."""
        return {name: getattr(self, f"_{name}").copy() for name in ("seen", "sent", "states", "commands")}

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        for name, array in state.items():
            setattr(self, f"_{name}", array.copy())


def _longer(past: Array, kept: int) -> Array:
    """Return a past (N, 1 + kept or more, ...) that goes on before its first entry as that was."""
    missing = 1 + kept - past.shape[1]
    return past if missing <= 0 else np.concatenate([np.repeat(past[:, :1], missing, axis=1), past], axis=1)
