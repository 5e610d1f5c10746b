"""Quadrotor trials over ROS topics, in lock step, through the deployed nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rlstack.bringup.episode_runner import FAR, EpisodeRecorder
from rlstack.bringup.node_process import Parameter
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Reading, Signals
from rlstack.interfaces.kind_signals import command_of
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.sim.sensing.noise import SensorNoise
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.episode_simulator import EpisodeSimulator
from rlstack.verification.trial_records import FlightRecord

LEAST = 10
"""Flights that justify another process."""


class _Flights(EpisodeSimulator):
    """Each episode has its own start, perturbation and sensor noise, so that it can be flown on its own."""

    def __init__(self, name: str, robot: Quadrotor, scenario: Scenario, seed: int | None, first: int) -> None:
        if not hasattr(BACKENDS.load(name), "perturb"):
            raise UserError(f"The backend '{name}' does not support disturbances: verify in another, such as mujoco.")
        self._scenario, self._seed, self._first = scenario, seed, first
        self._noise: SensorNoise | None = None
        super().__init__(name, robot, len(scenario))

    def make(self, number: int) -> Any:
        return self.factory(self.robot)

    def connect(self) -> None:
        self.backend.connect()  # it warms up unperturbed

    def needs_new_world(self, number: int) -> bool:
        return False

    def place(self, number: int) -> None:
        if self._seed is not None:
            mixed = np.random.SeedSequence([self._seed, self._first + number]).generate_state(1)
            self._noise = SensorNoise(self.robot, int(mixed[0]))
        self.backend.perturb(self._scenario.perturbation.take(np.array([number])))
        self.backend.reset({name: array[number] for name, array in self._scenario.state.items()})

    def noisy(self, reading: Reading) -> Reading:
        if self._noise is None:
            return reading
        return Reading(reading.time_s, self._noise.applied(dict(reading.signals), reading.time_s))


class FlightRecorder(EpisodeRecorder):
    """Records states, without the sensors' noise, and commands; an episode ends at its time limit.

    The guard's limits are widened because the start states are beyond them. The command of the last sample is NaN:
    nothing is flown after it.

    Args:
        duration_s: Length of every episode; the record has ``round(duration_s * rate) + 1`` samples.

    The other arguments are those of :func:`rlstack.bringup.episode_runner.run_episodes`.
    """

    warm_up_steps = 20
    guard_parameters: ClassVar[Mapping[str, Parameter]] = {
        "tilt_rad": math.pi,
        "linear_velocity_m_s": FAR,
        "angular_velocity_rad_s": FAR,
    }

    def __init__(
        self,
        backend_name: str,
        robot: Quadrotor,
        trials: Scenario,
        *,
        seed: int | None,
        first: int,
        duration_s: float = 8.0,
    ) -> None:
        super().__init__(_Flights(backend_name, robot, trials, seed, first))
        self.goals = self._trials = trials
        self._command = command_of(robot).name
        self._periods, self._rotors = round(duration_s * self.rate_hz), len(robot.rotors)
        widths = {"position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3, "command": self._rotors}
        shape = (self._periods + 1, len(trials))
        self._arrays: dict[str, Any] = {name: np.full((*shape, width), np.nan) for name, width in widths.items()}

    def warm_up(self) -> None:
        """Start the robot at the first goal, level, at hover speed, to stay there."""
        hover = np.full(self._rotors, self.simulator.robot.hover_speed_rad_s)
        self.simulator.reset({"position": self._trials.goal_position[0], "rotor_speed": hover})

    def commanded(self, sent: Signals) -> None:
        """Record the command."""
        self._arrays["command"][self.period, self.episode] = sent.get(self._command, np.zeros(self._rotors))

    def record(self) -> bool:
        """Record the state; return whether the episode is over."""
        state, at = self.simulator.state, (self.period, self.episode)
        for name in ("position", "orientation", "angular_velocity"):
            self._arrays[name][at] = state[name]
        self._arrays["linear_velocity"][at] = frames.rotate(state["orientation"], state["linear_velocity"])
        return self.period == self._periods

    def result(self) -> FlightRecord:
        """Return the record of all episodes."""
        return FlightRecord(
            simulator="",
            rate_hz=self.rate_hz,
            **self._arrays,
            goal_position=self._trials.goal_over(np.arange(self._periods + 1) / self.rate_hz),
            labels=self._trials.labels,
        )
