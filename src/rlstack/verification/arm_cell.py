"""An arm at its task in one simulator, trial after trial, behind the protocol that robots have: for policies in process
and, hosted by a robot node, for the nodes that are deployed."""

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
    """One trial after the other.

    What is sensed is drawn once a control period, so that it is the same however often it is read.

    Args:
        name: Of the backend.
        task: What is done.
        robot: Which arm.
        trials: N of them.
        seed: Of the noise, with the trial's number.
        first: The number of the first trial.

    Raises:
        UserError: The backend is no simulator with an engine, or the policy's rate is no whole share of the robot's.
    """

    def __init__(self, name: str, task: Any, robot: Manipulator, trials: Trials, seed: int, first: int = 0) -> None:
        self.every = round(robot.control_rate_hz / task.rate_hz)
        """Control periods of the robot in one of the policy."""
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
        """(3,) m of the present trial."""
        return np.asarray(self.trials.goal[self.number])

    @property
    def achieved(self) -> Array:
        """(3,) m: what is to be at the goal, without noise."""
        tool = np.asarray(tool_motion(self._screws, self.state["joint_position"][None, self._arm]).position[0])
        found: Array = self.task.achieved(tool, self.state.get("object_position", tool))
        return found

    def make(self, number: int) -> Any:
        """Return the simulator of a trial, with an object of its own where there is one."""
        self._built = number
        handled = self.task.objects is not None
        return self.factory(self.robot, **({"world": world_of(self.task, self.trials, number)} if handled else {}))

    def needs_new_world(self, number: int) -> bool:
        """Return whether another trial's object is there."""
        return self.task.objects is not None and number != self._built

    def place(self, number: int) -> None:
        """Begin a trial."""
        self.number, self.lost = number, False
        self._rng = np.random.default_rng([_STREAM, self._seed, self._first + number])
        self.reset()

    def _sense(self) -> None:
        self._reading = super().read()

    def noisy(self, reading: Reading) -> Reading:
        """Return a reading with the task's noise."""
        return Reading(reading.time_s, noisy(self.task.noise, reading.signals, self._rng))

    def read(self) -> Reading:
        """Return what is sensed in this period."""
        assert self._reading is not None  # it is connected
        return self._reading

    def step(self, duration_s: float) -> None:
        """Let a control period pass; one that is lost begins anew, so that the others go on."""
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
        """Begin the trial again."""
        self.backend.reset({"joint_position": self.trials.joints[self.number]})
        self._sense()


def world_of(task: Any, trials: Trials, number: int) -> World:
    """Return the world of a trial: a table, its top at z = 0, what is handled, and what stands beside it.

    Raises:
        UserError: There is something in the task's scene that worlds for engines do not have.
    """
    beside = task.stands(trials, number)
    if beside is None:
        raise UserError(
            f"What stands in the scene of {type(task).__name__} is known to the batch simulator alone: verify its"
            " policies there, with --backends batch."
        )
    handled = task.handled(trials, number)
    far = 2.0
    bounds = ((-far, -far, -far), (far, far, far))
    return World(
        name="table", seed=0, floor=True, obstacles=(handled, *beside), bounds_m=bounds, starts_m=((0.0, 0.0, 0.0),)
    )
