"""One robot of a simulation, with the same protocol as hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rlstack.interfaces.backend import Capture, Reading, Signals
from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec
from rlstack.sim.engine import Engine
from rlstack.sim.input_checks import check_options, checked_index, checked_seed
from rlstack.sim.kind_simulation import KindSimulation
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.sensing.noise import SensorNoise
from rlstack.sim.simulation import Simulation

_CAPTURES = 0xCA
"""Seed stream that separates the noise of cameras and lidars from that of other sensors."""


class SimulatedRobot:
    """A robot in a simulation, which may contain others; see :class:`rlstack.interfaces.backend.Backend`.

    Args:
        simulation: The simulation.
        index: Index of the robot.
        noise_seed: Seed of the robot file's sensor noise; None: readings without noise.

    Raises:
        UserError: The seed is not a whole number of at least 0.
        ValueError: The simulation has no such robot.
    """

    owns_time = True

    def __init__(self, simulation: Simulation, index: int = 0, noise_seed: int | None = None) -> None:
        self.simulation, self.index = simulation, checked_index(index, len(simulation))
        noise_seed = None if noise_seed is None else checked_seed("noise_seed", noise_seed)
        self.robot: RobotSpec = simulation.robots[index]
        self._kind: KindSimulation = find_kind(self.robot.kind).load("simulation")(simulation, index)
        self.sensed, self.commanded = self._kind.sensed, self._kind.commanded
        self.captured = (*self.robot.cameras, *self.robot.lidars)
        self._noise = None if noise_seed is None else SensorNoise(self.robot, noise_seed)
        self._random = None if noise_seed is None else np.random.default_rng([noise_seed, index, _CAPTURES])

    def connect(self) -> None:
        """Build the simulation and place the robot on the ground; a second call does nothing."""
        self.simulation.open()

    def read(self) -> Reading:
        """Return the present measurements of the robot's sensors, with noise, bias and latency."""
        signals = self._kind.read()
        if self._noise is not None:
            signals = self._noise.applied(signals, self.simulation.time_s)
        return Reading(self.simulation.time_s, signals)

    def capture(self, name: str) -> Capture:
        """Return the present measurement of a camera or lidar in the robot file.

        Raises:
            ValueError: The robot has no such camera or lidar.
            UserError: Rendering is not possible here; the message says what to install or set.
        """
        from rlstack.sim.sensing.captures import (  # imported late: only cameras need these libraries
            camera_view,
            lidar_scan,
        )

        if name not in self.captured:
            raise ValueError(f"'{name}' is not allowed: one of {list(self.captured)}.")
        pose = self.simulation.motion(self.index)
        engine, at = self.simulation.engine, (pose["position"], pose["orientation"])
        if name in self.robot.cameras:
            camera = self.robot.cameras[name]
            place, turn = self._kind.link(camera.link) if camera.link else at
            arrays = camera_view(engine, place, turn, camera, self._random)
        else:
            arrays = lidar_scan(engine, self.index, *at, self.robot.lidars[name], self._random)
        return Capture(self.simulation.time_s, arrays)

    def write(self, command: Signals) -> Signals:
        """Command the robot; return the command clipped to its limits.

        The command depends on the robot: ``rotor_speed`` (rotors,) rad/s, ``rates_thrust`` (4,) rad/s and m/s^2,
        ``twist`` (2,) m/s and rad/s, or ``joint_target`` (joints,) rad or m.

        Raises:
            ValueError: The command is not exactly one finite array of its shape; nothing was sent.
        """
        _ = self.simulation.engine
        return self._kind.write(command)

    def step(self, duration_s: float) -> None:
        """Advance time, for every robot of the simulation; see :meth:`Simulation.step`."""
        self.simulation.step(duration_s)

    def reset(self, state: Mapping[str, ArrayLike] | None = None) -> None:
        """Reset the robot to rest on the ground, or to ``state``; see :meth:`Simulation.reset`.

        If it is the simulation's only robot, movable obstacles are reset as well.
        """
        self.simulation.reset(self.index, state)
        self._kind.restart()
        if len(self.simulation) == 1:
            self.simulation.reset_world()
        if self._noise is not None:
            self._noise.restart()

    def perturb(self, perturbation: Perturbation) -> None:
        """Apply a perturbation until the next call; gust times count from the last reset.

        Raises:
            ValueError: The perturbation is not for one robot with these rotors.
        """
        self.simulation.set_perturbation(perturbation, np.array([self.index]))

    def disarm(self) -> None:
        """Stop all actuators at once, without command delay; a later :meth:`write` restarts them."""
        _ = self.simulation.engine
        self._kind.stop()

    def let_go(self) -> str:
        """Disarm: a simulated robot has no failsafe of its own."""
        self.disarm()
        return "disarmed"

    def close(self) -> None:
        """Release the simulation, with all its robots; a second call does nothing, any other use is an error."""
        self.simulation.close()


class SingleRobotBackend(SimulatedRobot):
    """One robot in its own simulation; backends subclass it with their engine.

    Args:
        robot: The robot.
        noise_seed: As for :class:`SimulatedRobot`.
        options: Options of :class:`Simulation`, such as ``world`` and ``physics_rate_hz``.

    Raises:
        UserError: The engine is not installed, or does not support the robot, the world or the physics rate.
    """

    engine: ClassVar[type[Engine]]

    def __init__(self, robot: RobotSpec, *, noise_seed: int | None = None, **options: Any) -> None:
        check_options(options, self.engine, Simulation, SingleRobotBackend)
        super().__init__(Simulation(self.engine, [robot], **options), 0, noise_seed)
