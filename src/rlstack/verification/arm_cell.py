"""An arm at its task in one simulator, trial after trial, behind the backend protocol: in process, or hosted by a robot
node for the deployed nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import Diverged, UserError
from rlstack.interfaces.backend import Reading
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.world import World
from rlstack.tasks.manipulator.trials import Trials, noisy
from rlstack.verification.episode_simulator import EpisodeSimulator

_STREAM = 0xA12


class ArmCell(EpisodeSimulator):
    """An arm's trials, one after the other.

    Sensor noise is drawn once per control period, so that repeated reads agree.

    Args:
        name: Name of the backend.
        task: The task.
        robot: The arm.
        trials: N trials.
        seed: Seed of the noise, combined with the trial's number.
        first: Number of the first trial.

    Raises:
        UserError: The backend is not a simulator with an engine, or the robot's rate is not a multiple of the policy's.
    """

    def __init__(self, name: str, task: Any, robot: Manipulator, trials: Trials, seed: int, first: int = 0) -> None:
        self.every = round(robot.control_rate_hz / task.rate_hz)
        """Control periods of the robot per policy step."""
        if abs(self.every * task.rate_hz - robot.control_rate_hz) > 1e-6:
            raise UserError(
                f"{robot.name} is controlled at {robot.control_rate_hz:g} Hz, which is no whole multiple of the task's"
                f" {task.rate_hz:g} Hz: choose another rate_hz."
            )
        self.task, self.trials, self._seed, self._first = task.fitted(robot), trials, seed, first
        chain = chain_of(robot)
        self._screws, self._arm = chain.screws, list(chain.index)
        self._reading: Reading | None = None
        self.lost = False
        """Whether this trial's object has left the table, or the state became non-finite."""
        super().__init__(name, robot, len(trials))

    @property
    def goal(self) -> Array:
        """(3,) m, goal of the current trial."""
        return np.asarray(self.trials.goal[self.number])

    @property
    def achieved(self) -> Array:
        """(3,) m: the achieved position, without noise."""
        tool = np.asarray(tool_motion(self._screws, self.state["joint_position"][None, self._arm]).position[0])
        found: Array = self.task.achieved(tool, self.state.get("object_position", tool))
        return found

    def make(self, number: int) -> Any:
        """Return the simulator of a trial, with the trial's object if it has one."""
        self._built = number
        handled = self.task.objects is not None
        return self.factory(self.robot, **({"world": world_of(self.task, self.trials, number)} if handled else {}))

    def needs_new_world(self, number: int) -> bool:
        """Return whether the trial's object differs from the current one."""
        return self.task.objects is not None and number != self._built

    def place(self, number: int) -> None:
        """Start a trial."""
        self.number, self.lost = number, False
        self._rng = np.random.default_rng([_STREAM, self._seed, self._first + number])
        self.reset()

    def _sense(self) -> None:
        self._reading = super().read()

    def noisy(self, reading: Reading) -> Reading:
        """Return a reading with the task's noise."""
        return Reading(reading.time_s, noisy(self.task.noise, reading.signals, self._rng))

    def read(self) -> Reading:
        """Return this period's noisy reading."""
        assert self._reading is not None  # it is connected
        return self._reading

    def step(self, duration_s: float) -> None:
        """Step one control period; a lost trial restarts, so that the others continue."""
        try:
            super().step(duration_s)
            self._sense()
            sound = all(np.isfinite(values).all() for values in self.state.values())
        except Diverged:
            sound = False
        if not sound:
            self.lost = True
            self.reset()
        elif not self.lost and "object_position" in self.state:
            self.lost = bool(self.task.off(self.state["object_position"]))

    def reset(self, state: Any = None) -> None:
        """Restart the trial."""
        self.backend.reset({"joint_position": self.trials.joints[self.number]})
        self._sense()


def world_of(task: Any, trials: Trials, number: int) -> World:
    """Return the world of a trial: a table with its top at z = 0, the object, and the fixtures beside it.

    Raises:
        UserError: The task's scene contains something that engine worlds do not support.
    """
    beside = task.stands(trials, number)
    if beside is None:
        raise UserError(
            f"Only the batch simulator supports the scene of {type(task).__name__}: verify its policies there, with"
            " --backends batch."
        )
    handled = task.handled(trials, number)
    far = 2.0
    bounds = ((-far, -far, -far), (far, far, far))
    return World(
        name="table", seed=0, floor=True, obstacles=(handled, *beside), bounds_m=bounds, starts_m=((0.0, 0.0, 0.0),)
    )
