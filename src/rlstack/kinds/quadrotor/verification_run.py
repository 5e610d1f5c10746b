"""Quadrotor trials over ROS topics, in lock step, through the deployed nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rlstack.bringup.episode_runner import FAR, EpisodeRecorder, run_episodes
from rlstack.bringup.parallel import OnProgress
from rlstack.bringup.process import Parameter
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Reading, Signals
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.sim.noise import SensorNoise
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.episode_simulator import EpisodeSimulator
from rlstack.verification.records import FlightRecord

LEAST = 10
"""Flights that justify another process."""


def fly_over_topics(
    policy: str | Path,
    trials: Scenario,
    robot: Quadrotor,
    backend_name: str = "mujoco",
    duration_s: float = 8.0,
    *,
    robot_name: str = "",
    seed: int | None = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> FlightRecord:
    """Fly and record every episode of a scenario in sequence.

    The guard's limits are widened because the start states are beyond them.

    Args:
        policy: The policy file.
        trials: N episodes, well above the floor.
        robot: The quadrotor.
        backend_name: A simulator that can be perturbed.
        duration_s: Length of every episode; the record has ``round(duration_s * rate) + 1`` samples.
        robot_name: The name or file that the nodes load; empty for the robot's name.
        seed: Seed of the sensor noise, combined with the episode's number; None: no noise.
        first: The number of the first episode.
        on_progress: Called after every episode with the number done and the total.

    Returns:
        The flights without the sensors' noise. The command of the last sample is NaN: nothing was flown after it.

    Raises:
        UserError: The backend does not support this, a node exited, or a command did not arrive.
    """
    simulator = _Flights(backend_name, robot, trials, seed, first)
    recorder = _Recorder(simulator, trials, duration_s, on_progress)
    found = run_episodes(policy, robot_name or robot.name, backend_name, recorder)
    return FlightRecord(
        **found,
        **recorder.arrays,
        goal_position=trials.goal_over(np.arange(recorder.periods + 1) / recorder.rate_hz),
        labels=trials.labels,
    )


class _Flights(EpisodeSimulator):
    """Each episode has its own start, perturbation and sensor noise, so that it can be flown on its own."""

    def __init__(self, name: str, robot: Quadrotor, scenario: Scenario, seed: int | None, first: int) -> None:
        if not hasattr(BACKENDS.load(name), "perturb"):
            raise UserError(
                f"The backend '{name}' is not a simulator that can be perturbed: verify in another, as mujoco."
            )
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


class _Recorder(EpisodeRecorder):
    """Records states and rotor commands; an episode ends at its time limit."""

    warm_up_steps = 20
    guard_parameters: ClassVar[Mapping[str, Parameter]] = {
        "tilt_rad": math.pi,
        "linear_velocity_m_s": FAR,
        "angular_velocity_rad_s": FAR,
    }

    def __init__(
        self, simulator: _Flights, scenario: Scenario, duration_s: float, on_progress: OnProgress | None
    ) -> None:
        super().__init__(simulator, on_progress)
        self.goals = scenario
        self.periods = round(duration_s * self.rate_hz)
        self._rotors = len(simulator.robot.rotors)
        widths = {"position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3, "command": self._rotors}
        shape = (self.periods + 1, len(scenario))
        self.arrays: dict[str, Any] = {name: np.full((*shape, width), np.nan) for name, width in widths.items()}

    def warm_up(self) -> None:
        """Start the robot at the first goal, level, at hover speed, to stay there."""
        hover = np.full(self._rotors, self.simulator.robot.hover_speed_rad_s)
        self.simulator.reset({"position": self.simulator._scenario.goal_position[0], "rotor_speed": hover})

    def commanded(self, sent: Signals) -> None:
        self.arrays["command"][self.period, self.episode] = sent.get("rotor_speed", np.zeros(self._rotors))

    def record(self) -> bool:
        state, at = self.simulator.state, (self.period, self.episode)
        for name in ("position", "orientation", "angular_velocity"):
            self.arrays[name][at] = state[name]
        self.arrays["linear_velocity"][at] = frames.rotate(state["orientation"], state["linear_velocity"])
        return self.period == self.periods
