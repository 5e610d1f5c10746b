"""One robot of a simulation, behind the protocol that hardware has as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.interfaces.backend import Capture, Reading, Signals
from rlstack.robots import Quadrotor, frames
from rlstack.sim.engine import Engine
from rlstack.sim.noise import SensorNoise
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.simulation import Simulation
from rlstack.sim.state import checked_command

Array = NDArray[np.float64]
_CAPTURES = 0xCA
"""Keeps the noise of cameras and lidars apart from that of the other sensors."""


class SimulatedRobot:
    """A quadrotor in a simulation, which may hold others; see :class:`rlstack.interfaces.backend.Backend`.

    Args:
        simulation: Where it is.
        index: Which of its robots.
        noise_seed: Of the noise that the robot file gives the sensors; None: readings without noise.
    """

    owns_time = True
    sensed = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "linear_acceleration",
        "imu_angular_velocity",
        "measured_rotor_speed",
    )
    commanded = ("rotor_speed",)

    def __init__(self, simulation: Simulation, index: int = 0, noise_seed: int | None = None) -> None:
        self.simulation, self.index = simulation, index
        self.robot: Quadrotor = simulation.robots[index]
        self.captured = (*self.robot.cameras, *self.robot.lidars)
        self._noise = None if noise_seed is None else SensorNoise(self.robot, noise_seed)
        self._random = None if noise_seed is None else np.random.default_rng([noise_seed, index, _CAPTURES])

    def connect(self) -> None:
        """Build the simulation and put the robot on the ground; a second call does nothing."""
        self.simulation.open()

    def read(self) -> Reading:
        """Return the present state; ``linear_acceleration`` is what an accelerometer at the centre of mass feels."""
        simulation, i = self.simulation, self.index
        state = {name: array[i] for name, array in simulation.state().items()}
        signals = {
            "position": state["position"],
            "orientation": state["orientation"],
            "linear_velocity": frames.rotate_inverse(state["orientation"], state["linear_velocity"]),
            "angular_velocity": state["angular_velocity"],
            "linear_acceleration": simulation.felt(i),
            "imu_angular_velocity": state["angular_velocity"],
            "measured_rotor_speed": state["rotor_speed"],
        }
        if self._noise is not None:
            signals = self._noise.applied(signals, simulation.time_s)
        return Reading(simulation.time_s, signals)

    def capture(self, name: str) -> Capture:
        """Return what a camera or lidar of the robot file sees now.

        Raises:
            ValueError: The robot has none of that name.
            UserError: There is no way to render here; it says what to install or set.
        """
        from rlstack.sim.sensing import camera_view, lidar_scan  # cameras need libraries that flying does not

        if name not in self.captured:
            raise ValueError(f"'{name}' is not allowed: one of {list(self.captured)}.")
        pose = {key: array[self.index] for key, array in self.simulation.state().items()}
        engine, at = self.simulation.engine, (pose["position"], pose["orientation"])
        if name in self.robot.cameras:
            arrays = camera_view(engine, *at, self.robot.cameras[name], self._random)
        else:
            arrays = lidar_scan(engine, self.index, *at, self.robot.lidars[name], self._random)
        return Capture(self.simulation.time_s, arrays)

    def write(self, command: Signals) -> Signals:
        """Command ``rotor_speed`` (rotors,) in rad/s; return it clipped to the rotors' range.

        Raises:
            ValueError: The command is not exactly one finite array of that shape; nothing was sent.
        """
        _ = self.simulation.engine
        wanted = checked_command(self.robot, command)
        i = slice(self.index, self.index + 1)
        return {"rotor_speed": self.simulation.rotorcraft.command(i, wanted[:, None])[:, 0]}

    def step(self, duration_s: float) -> None:
        """Let time pass, for every robot of the simulation; see :meth:`Simulation.step`."""
        self.simulation.step(duration_s)

    def reset(self, state: Mapping[str, ArrayLike] | None = None) -> None:
        """Put the robot at rest on the ground, or into ``state``; see :meth:`Simulation.reset`."""
        self.simulation.reset(self.index, state)
        if self._noise is not None:
            self._noise.restart()

    def perturb(self, perturbation: Perturbation) -> None:
        """Fly a robot that departs from its file, until the next call; gusts count from the last reset.

        Raises:
            ValueError: It is not of one robot with these rotors.
        """
        self.simulation.set_perturbation(perturbation, np.array([self.index]))

    def disarm(self) -> None:
        """Cut the motors at once, past the command delay; a later :meth:`write` starts them again."""
        _ = self.simulation.engine
        self.simulation.rotorcraft.stop(slice(self.index, self.index + 1))

    def close(self) -> None:
        """Release the simulation, with all its robots; a second call does nothing, any other use is an error."""
        self.simulation.close()


class AloneInAWorld(SimulatedRobot):
    """One robot in a simulation of its own: what a backend's module subclasses with its engine.

    Args:
        robot: What flies.
        noise_seed: As for :class:`SimulatedRobot`.
        options: Of :class:`Simulation`, such as ``world`` and ``physics_rate_hz``.

    Raises:
        UserError: The engine is not installed, or the robot, the world or the physics rate is not one it can simulate.
    """

    engine: ClassVar[type[Engine]]

    def __init__(self, robot: Quadrotor, *, noise_seed: int | None = None, **options: Any) -> None:
        super().__init__(Simulation(self.engine, [robot], **options), 0, noise_seed)
