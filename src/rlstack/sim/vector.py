"""Vector simulators: N independent robots, in the batch simulator or in any engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Backend
from rlstack.sim.engine import Engine
from rlstack.sim.world import World

BATCH = "batch"
"""Name of a kind's batch simulator; every other name is a backend with an engine."""


class VectorSimulator(Protocol):
    """N independent robots, stepped together."""

    label: str
    """Name of the simulator, for reports."""
    most: int
    """Greatest number of robots; the present number is that of the last :meth:`set_state`."""

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Set every robot's state from arrays (N, width) by name."""

    def state(self) -> dict[str, Array]:
        """Return copies of the state arrays (N, width); NaN for a robot that diverged."""

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, width)."""

    def close(self) -> None:
        """Release everything."""


def engine_of(simulator: str) -> type[Engine] | None:
    """Return the engine of a simulator; None without one, as for the batch simulator or a real robot.

    Raises:
        UserError: There is no such backend.
    """
    return None if simulator == BATCH else getattr(BACKENDS.load(simulator), "engine", None)


def where_in_process(simulator: str) -> str:
    """Return the name of an in-process simulator in reports."""
    return BATCH if simulator == BATCH else f"{simulator} (in process)"


def whole_steps(physics_rate_hz: float, rate_hz: float) -> int:
    """Return the whole number of physics steps per control period at this physics rate, rounded up."""
    return max(math.ceil(physics_rate_hz / rate_hz - 1e-9), 1)


def whole_rate_hz(engine: type[Engine], rate_hz: float) -> float:
    """Return the engine's default physics rate, or the next with whole steps per control period."""
    return whole_steps(engine.steps_per_s, rate_hz) * rate_hz


class EngineVector:
    """N robots of any kind in an engine, each behind a backend in its own world.

    Args:
        name: A backend with an engine.
        robot: A robot as its file describes it.
        count: N.
        rate_hz: Control rate.
        worlds: N worlds or names of worlds; None: the backend's default.
        seed: Seed of the sensor noise, combined with the robot's index.
        physics_hz: Least number of physics steps per second; None: the engine's default.

    Raises:
        UserError: The backend is not a simulator with an engine, or it is not installed.
    """

    def __init__(
        self,
        name: str,
        robot: Any,
        count: int,
        rate_hz: float,
        *,
        worlds: Sequence[World | str] | None = None,
        seed: int = 0,
        physics_hz: float | None = None,
    ) -> None:
        engine = engine_of(name)
        if engine is None:
            raise UserError(f"The backend '{name}' is not a simulator with an engine: choose one, such as mujoco.")
        rate = whole_rate_hz(engine, rate_hz) if physics_hz is None else whole_steps(physics_hz, rate_hz) * rate_hz
        self.label, self.most = where_in_process(name), count
        self.robot, self.period_s = robot, 1.0 / rate_hz
        self.backends: list[Backend] = []
        for k in range(count):
            world = {} if worlds is None else {"world": worlds[k]}
            backend = BACKENDS.load(name)(robot, physics_rate_hz=rate, noise_seed=seed + k, **world)
            self.backends.append(backend)
            backend.connect()
        self._read()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Set the robots' states from arrays (N, width) by name; see :meth:`rlstack.interfaces.backend.Backend`."""
        for k, backend in enumerate(self.backends):
            backend.reset({name: array[k] for name, array in state.items()})
        self._read()

    def state(self) -> dict[str, Array]:
        """Return the backends' readings, arrays (N, width) by name."""
        return dict(self._signals)

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, width)."""
        for backend, wanted in zip(self.backends, command):
            backend.write({backend.commanded[0]: wanted})
            backend.step(self.period_s)
        self._read()

    def capture(self, sensor: str, array: str) -> Array:
        """Return an array of a camera's or lidar's measurements of each robot, (N, ...)."""
        return np.stack([backend.capture(sensor).arrays[array] for backend in self.backends])

    def close(self) -> None:
        """Release the engines."""
        for backend in self.backends:
            backend.close()

    def _read(self) -> None:
        readings = [backend.read().signals for backend in self.backends]
        self._signals = {name: np.stack([r[name] for r in readings]) for name in readings[0]}
