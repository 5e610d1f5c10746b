"""A simulator of successive episodes with continuous time, for in-process runs and robot nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Capture, Reading, Signals
from rlstack.robots import frames
from rlstack.sim.vector import engine_of, whole_steps
from rlstack.sim.world import World


class EpisodeSimulator(ABC):
    """A backend that resets its robot, and if needed its world, in each episode.

    Args:
        name: Name of the backend.
        robot: The robot.
        count: Number of episodes.

    Raises:
        UserError: The backend is not a simulator with an engine.
    """

    owns_time = True

    def __init__(self, name: str, robot: Any, count: int) -> None:
        if engine_of(name) is None:
            raise UserError(f"The backend '{name}' is not a simulator with worlds: verify in another, such as mujoco.")
        self.factory, self.name, self.robot, self._count = BACKENDS.load(name), name, robot, count
        self.number = 0
        """Number of the current episode."""
        self.backend = self.make(0)
        """The simulator of the current episode."""
        self.sensed, self.commanded = self.backend.sensed, self.backend.commanded
        self.captured = self.backend.captured
        self._before_s = 0.0
        self.state: Signals = {}
        """The newest reading, without the noise of :meth:`noisy`."""

    def __len__(self) -> int:
        return self._count

    @abstractmethod
    def make(self, number: int) -> Any:
        """Return the simulator of an episode, not yet connected."""

    @abstractmethod
    def place(self, number: int) -> None:
        """Move the robot to the start of an episode."""

    def needs_new_world(self, number: int) -> bool:
        """Return whether an episode needs a simulator of its own."""
        return True

    def noisy(self, reading: Reading) -> Reading:
        """Add the episode's noise to a reading; by default there is none besides the backend's."""
        return reading

    def connect(self) -> None:
        """Connect, with the robot at the start of the first episode."""
        self.backend.connect()
        self.place(0)

    def enter(self, number: int) -> None:
        """Start an episode; time continues."""
        if self.needs_new_world(number):
            self._before_s += float(self.backend.read().time_s)
            self.backend.close()
            self.backend = self.make(number)
            self.backend.connect()
        self.number = number
        self.place(number)

    def read(self) -> Reading:
        """Return the newest reading."""
        reading: Reading = self.backend.read()
        self.state = reading.signals
        return self.noisy(replace(reading, time_s=reading.time_s + self._before_s))

    def capture(self, name: str) -> Capture:
        """Return a capture of a camera or lidar."""
        capture: Capture = self.backend.capture(name)
        return replace(capture, time_s=capture.time_s + self._before_s)

    def write(self, command: Signals) -> Signals:
        """Command the robot; return the command after its limits."""
        sent: Signals = self.backend.write(command)
        return sent

    def step(self, duration_s: float) -> None:
        """Advance time."""
        self.backend.step(duration_s)

    def reset(self, state: Any = None) -> None:
        """Reset the robot to rest, or to a state."""
        self.backend.reset(state)

    def disarm(self) -> None:
        """Stop the actuators."""
        self.backend.disarm()

    def let_go(self) -> str:
        """Act on commands that have ended."""
        return str(self.backend.let_go())

    def close(self) -> None:
        """Release the simulator."""
        self.backend.close()


class NewWorlds(EpisodeSimulator):
    """A mobile robot in a new world for each episode, at rest at a pose.

    Args:
        name: Name of the backend.
        robot: A wheeled base.
        worlds: World of each episode, or its name.
        starts: Start pose of each episode: x and y in m, yaw in rad; None: the origin.
        seed: Seed of the sensors' noise, combined with the episode's number.
        physics_hz: Least number of physics steps per second.

    Raises:
        UserError: The backend is not a simulator with worlds.
    """

    def __init__(
        self,
        name: str,
        robot: Any,
        worlds: Sequence[World | str],
        starts: Array | None,
        seed: int,
        physics_hz: float,
    ) -> None:
        self._worlds, self._starts, self._seed = worlds, np.zeros((len(worlds), 3)) if starts is None else starts, seed
        self._rate_hz = whole_steps(physics_hz, robot.control_rate_hz) * robot.control_rate_hz
        super().__init__(name, robot, len(worlds))

    def world(self, number: int) -> World | str:
        """Return the world of an episode, or its name; called once before each episode."""
        return self._worlds[number]

    @property
    def pose(self) -> Array:
        """(3,) pose of the newest reading: x and y in m, yaw in rad."""
        return np.array([*self.state["position"][:2], float(frames.yaw(self.state["orientation"]))])

    @property
    def twist(self) -> Array:
        """(3,) twist of the newest reading: m/s, m/s, rad/s in base_link."""
        return np.array([*self.state["linear_velocity"][:2], self.state["angular_velocity"][2]])

    def make(self, number: int) -> Any:
        """Return the simulator of an episode, not yet connected."""
        world, seed = self.world(number), self._seed + number
        return self.factory(self.robot, world=world, physics_rate_hz=self._rate_hz, noise_seed=seed)

    def place(self, number: int) -> None:
        """Put the robot at the start of an episode."""
        x, y, yaw = self._starts[number]
        place = np.array([x, y, self.robot.rest_height_m])
        self.backend.reset({"position": place, "orientation": frames.from_yaw(yaw)})
