"""An arm at its task in one simulator, trial after trial, behind the protocol that robots have: for policies in process
and, hosted by a robot node, for the nodes that are deployed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import Diverged, UserError
from rlstack.interfaces.backend import BACKENDS, Capture, Reading, Signals
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.world import World
from rlstack.tasks.manipulator.noise import noisy
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification.flock import engine_of

_STREAM = 0xA12


class ArmCell:
    """One trial after the other; time goes on.

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

    owns_time = True

    def __init__(self, name: str, task: Any, robot: Manipulator, trials: Trials, seed: int, first: int = 0) -> None:
        if engine_of(name) is None:
            raise UserError(f"The backend '{name}' is not a simulator with an engine: verify in another, as mujoco.")
        self.every = round(robot.control_rate_hz / task.rate_hz)
        """Control periods of the robot in one of the policy."""
        if abs(self.every * task.rate_hz - robot.control_rate_hz) > 1e-6:
            raise UserError(
                f"{robot.name} is controlled at {robot.control_rate_hz:g} Hz, which is no whole multiple of the task's"
                f" {task.rate_hz:g} Hz: choose another rate_hz."
            )
        task = task.fitted(robot)
        self._factory, self.task, self.robot, self.trials = BACKENDS.load(name), task, robot, trials
        self._seed, self._first = seed, first
        chain = chain_of(robot)
        self._screws, self._arm = chain.screws, list(chain.index)
        self._number = -1
        self._handled = task.objects is not None
        self._inner = self._made(0)
        self.sensed, self.commanded, self.captured = self._inner.sensed, self._inner.commanded, self._inner.captured
        self._before_s = 0.0
        self._reading: Reading | None = None
        self.lost = False
        """Whether this trial's object has left the table, or numbers were not finite any more."""

    @property
    def goal(self) -> Array:
        """(3,) m of the present trial."""
        return np.asarray(self.trials.goal[self._number])

    @property
    def achieved(self) -> Array:
        """(3,) m: what is to be at the goal, without noise."""
        tool = np.asarray(tool_motion(self._screws, self._true["joint_position"][None, self._arm]).position[0])
        found: Array = self.task.achieved(tool, self._true.get("object_position", tool))
        return found

    def connect(self) -> None:
        """Begin the first trial."""
        self._inner.connect()
        self.enter(0)

    def enter(self, number: int) -> None:
        """Begin a trial, with an object of its own where there is one."""
        if self._handled and number != self._built:
            self._before_s += float(self._inner.read().time_s)
            self._inner.close()
            self._inner = self._made(number)
            self._inner.connect()
        self._number, self.lost = number, False
        self._rng = np.random.default_rng([_STREAM, self._seed, self._first + number])
        self._begin()

    def _made(self, number: int) -> Any:
        self._built = number
        return self._factory(
            self.robot, **({"world": world_of(self.task, self.trials, number)} if self._handled else {})
        )

    def _begin(self) -> None:
        self._inner.reset({"joint_position": self.trials.joints[self._number]})
        self._sense()

    def _sense(self) -> None:
        reading = self._inner.read()
        self._true: Signals = reading.signals
        sensed = noisy(self.task.noise, self._true, self._rng)
        self._reading = Reading(reading.time_s + self._before_s, sensed)

    def read(self) -> Reading:
        """Return what is sensed in this period."""
        assert self._reading is not None  # it is connected
        return self._reading

    def capture(self, name: str) -> Capture:
        """Return what a camera sees."""
        capture: Capture = self._inner.capture(name)
        return replace(capture, time_s=capture.time_s + self._before_s)

    def write(self, command: Signals) -> Signals:
        """Command the joints; return what their ranges leave of it."""
        sent: Signals = self._inner.write(command)
        return sent

    def step(self, duration_s: float) -> None:
        """Let a control period pass; one that is lost begins anew, so that the others go on."""
        try:
            self._inner.step(duration_s)
            self._sense()
            sound = all(np.isfinite(values).all() for values in self._true.values())
        except Diverged:
            sound = False
        if not sound:
            self.lost = True
            self._begin()
        elif not self.lost and "object_position" in self._true:
            self.lost = bool(self.task.off(self._true["object_position"]))

    def reset(self, state: Any = None) -> None:
        """Begin the trial again."""
        self._begin()

    def disarm(self) -> None:
        """Let the joints stay where they are."""
        self._inner.disarm()

    def close(self) -> None:
        """Release the simulator."""
        self._inner.close()


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
