"""Manipulation trials in one simulator, one after the other: in process, or hosted by a robot node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import Reading
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.world import World
from rlstack.tasks.manipulator.table_trials import TableTrials
from rlstack.tasks.manipulator.trials import ArmTrials, noisy
from rlstack.verification.sighted_simulator import SightedSimulator


class ManipulationSimulator(SightedSimulator):
    """Trials of an arm; a trial is also lost when its object leaves the table."""

    stream = 0xA12

    def __init__(self, name: str, task: Any, robot: Manipulator, trials: ArmTrials, seed: int, first: int = 0) -> None:
        chain = chain_of(robot)
        self._screws, self._arm = chain.screws, list(chain.index)
        super().__init__(name, task.fitted(robot), robot, trials, seed, first)

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

    @property
    def measured(self) -> tuple[Array, ...]:
        """(1, 3) m: the achieved position."""
        return (self.achieved[None],)

    def make(self, number: int) -> Any:
        """Return the simulator of a trial, with the trial's object if it has one."""
        self._built = number
        handled = self.task.objects is not None
        return self.factory(self.robot, **({"world": world_of(self.task, self.trials, number)} if handled else {}))

    def needs_new_world(self, number: int) -> bool:
        """Return whether the trial's object differs from the current one."""
        return self.task.objects is not None and number != self._built

    def signals(self) -> Mapping[str, NDArray[Any]]:
        """Return the signals that the policy may take."""
        said = {"instruction": self.trials.instruction[self.number]} if isinstance(self.trials, TableTrials) else {}
        return {**super().signals(), "goal_position": self.goal, **said}

    def noisy(self, reading: Reading) -> Reading:
        """Return a reading with the task's noise."""
        return Reading(reading.time_s, noisy(self.task.noise, reading.signals, self._rng))

    def step(self, duration_s: float) -> None:
        """Step one control period."""
        super().step(duration_s)
        if not self.lost and "object_position" in self.state:
            engine = self.backend.simulation.engine
            self.lost = bool(self.task.off_table(self.state["object_position"])) or self.task.failed(
                self.trials, self.number, lambda name: engine.obstacle_pose(name)[0]
            )

    def reset(self, state: Any = None) -> None:
        """Restart the trial."""
        self.backend.reset({"joint_position": self.trials.joints[self.number]})
        self._sense()


def world_of(task: Any, trials: ArmTrials, number: int) -> World:
    """Return the world of a trial: a table with its top at z = 0, the object, and the fixtures beside it.

    Raises:
        UserError: The task's scene contains something that engine worlds do not support.
    """
    beside = task.fixture_obstacles(trials, number)
    if beside is None:
        raise UserError(
            f"Only the batch simulator supports the scene of {type(task).__name__}: verify its policies there, with"
            " --backends batch."
        )
    handled = task.object_obstacle(trials, number)
    far = 2.0
    bounds = ((-far, -far, -far), (far, far, far))
    return World(
        name="table", seed=0, floor=True, obstacles=(handled, *beside), bounds_m=bounds, starts_m=((0.0, 0.0, 0.0),)
    )
