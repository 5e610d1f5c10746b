"""One arm at its task, for demonstrations by a script, a person, or recorded commands.

Its interface is numpy arrays; the environment is that of training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.instruction import decoded
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.tasks.manipulator.pipeline import ArmPipeline

if TYPE_CHECKING:
    from rlstack.tasks.manipulator.task import ArmTask


TRIAL = ("goal.x", "goal.y", "goal.z", "half.x", "half.y", "half.z", "mass", "friction")
"""Values of a trial beside the simulator's state: goal, m, and the object's half lengths, m, mass, kg, friction."""


@dataclass(frozen=True)
class DemonstrationStep:
    """Result of a step.

    Attributes:
        command: (joints,) joint targets, rad or m.
        reward: Reward of the step.
        success: Whether the task has been done for long enough.
        done: Whether the episode is over; the next one has then begun.
        timed_out: Whether it ended by its time limit.
    """

    command: Array
    reward: float
    success: bool
    done: bool
    timed_out: bool


class DemonstrationEnvironment:
    """One arm at its task.

    Args:
        task: The task.
        robot: The arm.
        seed: Seed of starts and noise.

    Raises:
        UserError: The robot cannot do the task.
    """

    def __init__(self, task: ArmTask, robot: Manipulator, seed: int = 0) -> None:
        self.robot = task.reference(robot)
        self.task = task.fitted(self.robot)
        self.pipeline: ArmPipeline = task.pipeline(self.robot)
        self.environment = ArmEnvironment(self.task, self.robot, self.pipeline, 1, seed=seed, threads=1)
        self.steps = 0
        """Steps of the episode so far."""
        self.begin()

    def begin(self) -> None:
        """Draw a new trial and start it."""
        self.environment.restart(torch.zeros(1, dtype=torch.long))
        self._keep(self.environment.observe()[0])  # observe once per step: each observation draws new noise
        self.steps = 0

    @property
    def instruction(self) -> str:
        """The sentence of the present episode; empty for tasks without one."""
        said = self.environment.scene.true(images=False).get("instruction")
        return "" if said is None else decoded(said[0])

    def senses(self) -> dict[str, Array]:
        """Return the policy's present inputs and the values prepared from them, by name; see the pipeline."""
        return {name: array[0] for name, array in self.environment.senses().items()}

    def observation(self) -> Array:
        """Return the policy network's observation (columns,)."""
        return self._seen.copy()

    def achieved(self) -> Array:
        """Return the achieved goal (3,) m."""
        return self.environment.achieved_goal()[0].numpy().astype(np.float64)

    def expert(self) -> Array:
        """Return the scripted expert's action (actions,) in -1..1."""
        return self.environment.expert_action()[0].numpy().astype(np.float64)

    def act(self, action: Array) -> DemonstrationStep:
        """Advance one control period with an action (actions,), clipped to -1..1."""
        given = torch.from_numpy(np.asarray(action, dtype=np.float32)[None])
        prepared = {name: torch.from_numpy(a.astype(np.float32)) for name, a in self.environment.senses().items()}
        with torch.no_grad():
            command = self.pipeline.command(self.pipeline.clip(given), prepared)
        result = self.environment.step(given)
        self._keep(result.actor)
        done = bool(result.done[0])
        self.steps = 0 if done else self.steps + 1
        return DemonstrationStep(
            command=command[0].numpy().astype(np.float64),
            reward=float(result.reward[0]),
            success=bool(result.success[0]),
            done=done,
            timed_out=bool(result.timed_out[0]),
        )

    @property
    def state(self) -> Array:
        """State of the simulator, (width,)."""
        return self.environment.scene.worlds.state[0].copy()

    @property
    def trial(self) -> Array:
        """The values of :data:`TRIAL`, (8,)."""
        scene = self.environment.scene
        drawn = scene.drawn
        return np.concatenate([scene.goal[0], drawn["half"][0], drawn["mass"], drawn["friction"]])

    def restore(self, state: Array, trial: Array) -> None:
        """Set the simulator to a recorded state of a recorded trial.

        Raises:
            UserError: The state does not fit this arm and task.
        """
        scene = self.environment.scene
        if state.shape != scene.worlds.state[0].shape:
            raise UserError(
                f"The recorded state has {len(state)} values, but {self.robot.name} at this task has"
                f" {scene.worlds.state.shape[1]}: the robot's model, the task or MuJoCo has changed since."
            )
        scene.goal[0] = trial[:3]
        scene.vary({"half": trial[None, 3:6], "mass": trial[6:7], "friction": trial[7:8]})
        scene.worlds.state[0] = state

    def drive(self, command: Array) -> None:
        """Advance one control period with the joint targets ``command`` (joints,), bypassing the task."""
        self.environment.scene.step(np.asarray(command, dtype=float)[None])

    def positions(self, state: Array | None = None) -> dict[str, Array]:
        """Return the true positions at present or in a ``state``: ``joints`` (joints,), ``tool`` (3,), ``object`` (3,).

        In rad and m; there may be no object.
        """
        scene = self.environment.scene
        now = self.state
        if state is not None:
            scene.worlds.state[0] = state
        found = {"joints": scene.worlds.joint_position[0].copy(), "tool": scene.tool()[0]}
        if (thing := scene.true().get("object_position")) is not None:
            found["object"] = thing[0].copy()
        scene.worlds.state[0] = now
        return found

    def is_done(self) -> bool:
        """Return whether the goal is achieved at present."""
        return bool(self.task.done(self.achieved()[None], self.environment.scene.goal)[0])

    def _keep(self, seen: torch.Tensor) -> None:
        self._seen = seen[0].numpy().astype(np.float64)

    def close(self) -> None:
        """Close the simulator."""
        self.environment.close()
