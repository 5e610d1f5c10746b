"""N quadrotors that fly together: in the batch simulator, or isolated in one world of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.vector import BATCH, VectorSimulator, engine_of, where_in_process, whole_rate_hz

TOGETHER = 64
"""Robots in one engine's world at a time: more cost more each."""

_DIVERGED = 1e3
"""m, m/s or rad/s: a robot beyond any of these has diverged."""
_MOTION = ("position", "linear_velocity", "angular_velocity")


class QuadrotorVector(VectorSimulator, Protocol):
    """N quadrotors; commands are rotor speeds, rad/s, and velocities are in the world."""

    def set_perturbation(self, perturbation: Perturbation) -> None:
        """Give each robot its departures from the file."""


def quadrotor_vector(
    name: str, robot: Quadrotor, count: int, rate_hz: float, *, longest_delay_s: float = 0.0, **options: Any
) -> QuadrotorVector:
    """Return quadrotors in the simulator called ``name``.

    Args:
        name: :data:`rlstack.sim.vector.BATCH`, or a backend with an engine.
        robot: What flies.
        count: N wanted.
        rate_hz: Control rate.
        longest_delay_s: The longest command delay of the perturbations to come.
        options: Of the simulator: ``device``, ``substeps`` and ``gyroscopic`` of the batch simulator,
            ``physics_rate_hz``, ``gyroscopic``, ``world`` and more of an engine's simulation.

    Raises:
        UserError: There is no such simulator, it is not installed, or it has no engine that flies many at once.
    """
    if name == BATCH:
        return _Batch(robot, count, rate_hz, max(longest_delay_s, 0.05), options)
    return _InEngine(name, robot, count, rate_hz, options)


_BATCH_OPTIONS = ("device", "substeps", "gyroscopic", "models", "wind", "seed")


class _Batch:
    label = "batch simulator"

    def __init__(self, robot: Quadrotor, count: int, rate_hz: float, longest_s: float, options: dict[str, Any]) -> None:
        try:
            from rlstack.sim.batch import BatchSimulator
        except ImportError as error:
            raise UserError(
                f"The batch simulator needs {error.name}, which is not installed: pip install 'rlstack[sim]'."
            ) from error
        self.most = count
        if unknown := sorted(set(options) - set(_BATCH_OPTIONS)):
            raise unknown_name("option of the batch simulator", unknown[0], _BATCH_OPTIONS)
        simulator = BatchSimulator(robot, count, rate_hz=rate_hz, max_delay_s=longest_s, **options)
        self.set_perturbation, self.set_state = simulator.set_perturbation, simulator.set_state
        self.state, self.step = simulator.state, simulator.step

    def close(self) -> None:
        """Release nothing: it is all memory."""


class _InEngine:
    def __init__(self, name: str, robot: Quadrotor, count: int, rate_hz: float, options: dict[str, Any]) -> None:
        from rlstack.sim.simulation import Simulation

        engine = engine_of(name)
        if engine is None:
            raise UserError(f"The backend '{name}' does not fly many at once in process: use it over topics.")
        rate = options.pop("physics_rate_hz", None) or whole_rate_hz(engine, rate_hz)
        self.label = where_in_process(name)
        self.most = min(count, TOGETHER)
        self._period_s, self._robot, self._flown = 1.0 / rate_hz, robot, self.most
        self._simulation = Simulation(engine, [robot] * self.most, physics_rate_hz=rate, isolated=True, **options)
        self._simulation.open()
        self._gone = np.zeros(self.most, dtype=bool)

    def set_perturbation(self, perturbation: Perturbation) -> None:
        count = len(perturbation)
        self._simulation.set_perturbation(perturbation, np.arange(count))

    def set_state(self, state: Mapping[str, Array]) -> None:
        self._flown = len(state["position"])
        self._gone = np.arange(self.most) >= self._flown
        self._simulation.set_state(state, np.arange(self._flown))
        for idle in range(self._flown, self.most):
            self._simulation.reset(idle)

    def state(self) -> dict[str, Array]:
        state = self._simulation.state()
        # one that runs away would take those with it that stand on the same floor: it is put back, and given up
        rows = np.concatenate([state[name] for name in _MOTION], axis=1)
        for away in np.flatnonzero(~self._gone & ~(np.abs(rows) < _DIVERGED).all(axis=1)).tolist():
            self._gone[away] = True
            self._simulation.reset(away)
        gone = self._gone[: self._flown, None]
        return {name: np.where(gone, np.nan, array[: self._flown]) for name, array in state.items()}

    def step(self, command: Array) -> None:
        wanted = np.zeros((self.most, len(self._robot.rotors)))
        wanted[: self._flown] = np.where(self._gone[: self._flown, None], 0.0, command)
        self._simulation.command(wanted)
        self._simulation.step(self._period_s)

    def close(self) -> None:
        self._simulation.close()


SIMULATION_VECTOR = quadrotor_vector
