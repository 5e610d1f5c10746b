"""Vectorised quadrotors: in the batch simulator, or isolated from each other in one world of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Array32
from rlstack.errors import UserError, unknown_name
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.sensing import Camera
from rlstack.sim.batch_quadrotor.layout import STATE
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.vector import BATCH, VectorSimulator, engine_of, where_in_process, whole_rate_hz

TOGETHER = 64
"""Robots in one engine world at a time: the cost per robot grows with their number."""

_DIVERGED = 1e3
"""m, m/s or rad/s: a robot beyond any of these has diverged."""
_MOTION = ("position", "linear_velocity", "angular_velocity")

_PICTURE = Camera(width=480, height=360, rate_hz=30.0, horizontal_fov_rad=0.9)
_FROM = np.array([-0.8, -0.5, 0.45])
"""Offset of the camera that follows a robot, relative to its distance."""


@dataclass(frozen=True)
class EpisodeStart:
    """Start of one robot's episode.

    Args:
        state: Start state by name, (1, width), velocities in the world frame.
        perturbation: Perturbation of one robot.
        state_row: (STATE_WIDTH,) start state for kernels.
        parameter_row: (PARAMETER_WIDTH,) parameters for kernels, without further physics models.
    """

    state: dict[str, Array]
    perturbation: Perturbation
    state_row: Array32
    parameter_row: Array32


class EpisodicQuadrotors(Protocol):
    """N quadrotors whose episodes start one by one, with states and parameters as rows that kernels read."""

    renders: bool
    """Whether :meth:`render` is supported."""

    def place(self, number: int, start: EpisodeStart) -> None:
        """Reset one robot to the start of an episode, with the episode's departures from the robot file."""

    def write_state(self, rows: Array32) -> None:
        """Write the states, except the time, into ``rows`` (STATE_WIDTH, N)."""

    def write_parameters(self, rows: Array32) -> None:
        """Write the parameters into ``rows`` (PARAMETER_WIDTH, N)."""

    def render(self) -> NDArray[np.uint8]:
        """Return the image of a camera that follows the first robot (height, width, 3)."""

    def step(self, command: NDArray[np.floating]) -> None:
        """Advance one control period under ``command`` (N, rotors) rad/s, or (N, 4) rates and thrust."""

    def close(self) -> None:
        """Release everything."""


class QuadrotorVector(EpisodicQuadrotors, VectorSimulator, Protocol):
    """N quadrotors; commands are rotor speeds, rad/s, or rates and thrust; velocities are in the world."""

    def set_perturbation(self, perturbation: Perturbation) -> None:
        """Set each robot's departures from the file."""


def quadrotor_vector(
    name: str, robot: Quadrotor, count: int, rate_hz: float, *, longest_delay_s: float = 0.05, **options: Any
) -> QuadrotorVector:
    """Return vectorised quadrotors in the simulator called ``name``.

    Args:
        name: :data:`rlstack.sim.vector.BATCH`, or a backend with an engine.
        robot: The quadrotor.
        count: N.
        rate_hz: Control rate.
        longest_delay_s: The longest command delay of the perturbations to come.
        options: Options of the simulator: ``device``, ``substeps``, ``gyroscopic``, ``residual`` of the batch one,
            ``physics_rate_hz``, ``gyroscopic``, ``world`` and more of an engine's simulation, ``together`` (robots in
            one world, at most) and ``height_m`` (of the origin of :meth:`QuadrotorVector.place` over the start).

    Raises:
        UserError: There is no such simulator, it is not installed, or its engine does not support several at once.
    """
    if name == BATCH:
        return _Batch(robot, count, rate_hz, longest_delay_s, options)
    return _InEngine(name, robot, count, rate_hz, **options)


_BATCH_OPTIONS = ("device", "substeps", "gyroscopic", "models", "wind", "seed", "residual")


class _Batch:
    label, renders = "batch simulator", False

    def __init__(self, robot: Quadrotor, count: int, rate_hz: float, longest_s: float, options: dict[str, Any]) -> None:
        try:
            from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
        except ImportError as error:
            raise UserError(
                f"The batch simulator needs {error.name}, which is not installed: pip install 'rlstack[sim]'."
            ) from error
        self.most = count
        if unknown := sorted(set(options) - set(_BATCH_OPTIONS)):
            raise unknown_name("option of the batch simulator", unknown[0], _BATCH_OPTIONS)
        self.simulator = simulator = QuadrotorSimulator(robot, count, rate_hz=rate_hz, max_delay_s=longest_s, **options)
        self.set_perturbation, self.set_state = simulator.set_perturbation, simulator.set_state
        self.state, self.step = simulator.state, simulator.step

    def place(self, number: int, start: EpisodeStart) -> None:
        self.simulator.state_rows[:, number] = start.state_row
        robot, turning = self.simulator.robot, start.state_row[STATE["rotor_speed"]]
        for command in self.simulator.commands:
            command[:, number] = turning if robot.rate_loop is None else robot.hover_command
        self.simulator.parameters[:, number] = start.parameter_row

    def write_state(self, rows: Array32) -> None:
        rows[:-1] = self.simulator.state_rows[:-1]

    def write_parameters(self, rows: Array32) -> None:
        rows[:] = self.simulator.parameters

    def render(self) -> NDArray[np.uint8]:
        raise UserError("The batch simulator renders no images: choose another backend, such as mujoco.")

    def close(self) -> None:
        """No-op: it holds only memory."""


class _InEngine:
    renders = True

    def __init__(
        self,
        name: str,
        robot: Quadrotor,
        count: int,
        rate_hz: float,
        *,
        together: int = TOGETHER,
        height_m: float | None = None,
        physics_rate_hz: float | None = None,
        **options: Any,
    ) -> None:
        from rlstack.sim.simulation import Simulation

        engine = engine_of(name)
        if engine is None:
            raise UserError(f"The backend '{name}' does not support several quadrotors in process: use it over topics.")
        rate = physics_rate_hz or whole_rate_hz(engine, rate_hz)
        self.label = where_in_process(name)
        self.most = min(count, together)
        self._period_s, self._robot, self._flown = 1.0 / rate_hz, robot, self.most
        self.simulation = Simulation(engine, [robot] * self.most, physics_rate_hz=rate, isolated=True, **options)
        self.simulation.open()
        self._gone = np.zeros(self.most, dtype=bool)
        self._origin = np.zeros(3)
        if height_m is not None:
            self._origin = self.simulation.starts_m[0] + np.array([0.0, 0.0, height_m])

    def set_perturbation(self, perturbation: Perturbation) -> None:
        count = len(perturbation)
        self.simulation.set_perturbation(perturbation, np.arange(count))

    def set_state(self, state: Mapping[str, Array]) -> None:
        self._flown = len(state["position"])
        self._gone = np.arange(self.most) >= self._flown
        self.simulation.set_state(state, np.arange(self._flown))
        for idle in range(self._flown, self.most):
            self.simulation.reset(idle)

    def place(self, number: int, start: EpisodeStart) -> None:
        which = np.array([number])
        self.simulation.set_perturbation(start.perturbation, which)
        self.simulation.set_state({**start.state, "position": start.state["position"] + self._origin}, which)

    def state(self) -> dict[str, Array]:
        state = self.simulation.state()
        # a diverged robot would take others on the same floor along: it is reset, and its episode ends
        rows = np.concatenate([state[name] for name in _MOTION], axis=1)
        for away in np.flatnonzero(~self._gone & ~(np.abs(rows) < _DIVERGED).all(axis=1)).tolist():
            self._gone[away] = True
            self.simulation.reset(away)
        gone = self._gone[: self._flown, None]
        return {name: np.where(gone, np.nan, array[: self._flown]) for name, array in state.items()}

    def write_state(self, rows: Array32) -> None:
        craft = self.simulation.rotorcraft
        poses = craft.poses
        rows[0:3] = poses[:3] - self._origin[:, None]
        rows[3:7] = poses[3:]
        rows[7:13] = craft.velocities()
        rows[13:17] = craft.speed

    def write_parameters(self, rows: Array32) -> None:
        rows[:] = self.simulation.rotorcraft.parameters

    def step(self, command: NDArray[np.floating]) -> None:
        wanted = np.zeros((self.most, len(self._robot.rotors)))
        wanted[: self._flown] = np.where(self._gone[: self._flown, None], 0.0, command)
        self.simulation.command(wanted)
        self.simulation.step(self._period_s)

    def render(self) -> NDArray[np.uint8]:
        """Return the image of a camera that follows the first robot (height, width, 3)."""
        at = self.simulation.state()["position"][0]
        away = 0.8 + 10.0 * float(np.abs(self._robot.rotor_positions).max())
        eye = at + away * _FROM
        forward = (at - eye) / np.linalg.norm(at - eye)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(forward, right), forward], axis=1)
        rgb = self.simulation.engine.look(eye, axes, _PICTURE, ("rgb",)).rgb
        if rgb is None:
            raise RuntimeError(f"The engine {self.simulation.engine_type.name} returned no colour image.")
        return np.array(rgb)

    def close(self) -> None:
        self.simulation.close()
