"""Training environment of N arms, in the MuJoCo worlds of evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Index, Mask
from rlstack.tasks.core.mujoco_environment import MujocoEnvironment, Outcome
from rlstack.tasks.manipulator.expert import FINGERS, stopped
from rlstack.tasks.manipulator.observations import DECIMETRES, GOAL, TARGET_GOAL
from rlstack.tasks.manipulator.rewards import ArmTransition
from rlstack.tasks.manipulator.scene import ArmScene, make_scene

STARTS = 1024
"""Start poses computed ahead by inverse kinematics; every reset uses one of them."""


class ArmEnvironment(MujocoEnvironment):
    """N arms at a :class:`.ArmTask`; a :class:`rlstack.tasks.core.learning_environment.ScriptedEnvironment`."""

    scene: ArmScene
    scene_class = staticmethod(make_scene)

    def _set_up(self) -> None:
        self._starts = self.task.draw_starts(self.robot, self._rng, STARTS)
        columns = {term.name: slice(term.start, term.start + term.size) for term in self.pipeline.table()}
        self._goal_columns, self._target_columns = columns.get(GOAL), columns.get(TARGET_GOAL)
        self._tool_columns, self._object_columns = columns["tool_position"], columns.get("object_offset")
        self._middle = torch.tensor(self.scene.task.workspace.middle, dtype=torch.float32)
        self._held = np.zeros(self.count, dtype=np.intp)
        """(N,) number of consecutive steps in which the task was done."""

    def restart(self, index: Tensor) -> None:
        """Reset the arms at ``index``."""
        super().restart(index)
        self._held[index.numpy()] = 0

    def achieved_goal(self) -> Tensor:
        """Return the achieved goals (N, 3) m, which should match :meth:`desired_goal`."""
        return torch.from_numpy(self.scene.achieved().astype(np.float32))

    def desired_goal(self) -> Tensor:
        """Return (N, 3) m."""
        return torch.from_numpy(self.scene.goal.astype(np.float32))

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the sparse reward (...) of steps that led to ``achieved`` (..., 3) m, for the goal ``desired``."""
        judged = self.task.reward_of(achieved.numpy(), desired.numpy())
        return torch.from_numpy(np.asarray(judged, dtype=np.float32))

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations (..., size) relabelled for another goal: as the policy would have observed them.

        Args:
            observation: (..., size); they may end after the goal's columns.
            achieved: (..., 3) m at the time of each.
            desired: (..., 3) m.

        Raises:
            UserError: The policy does not observe its goal.
        """
        if self._goal_columns is None:
            return super().relabelled(observation, achieved, desired)
        seen = observation.clone()
        would = {"goal_position": desired, self.task.moved: self._observed_goal(observation, achieved)}
        asked = self.pipeline.term(GOAL).observe(would, {})
        if (columns := self._target_columns) is not None:  # it moves with the goal
            first = slice(columns.start, columns.start + 3)
            moved = seen[..., first] + (asked - seen[..., self._goal_columns])[..., :3]
            none = torch.zeros_like(moved)
            here = {"goal_position": moved / DECIMETRES, self.task.moved: none, "lead": none}
            seen[..., columns] = self.pipeline.term(TARGET_GOAL).observe(here, {})
        seen[..., self._goal_columns] = asked
        return seen

    def _observed_goal(self, observation: Tensor, achieved: Tensor) -> Tensor:
        """Return the achieved goals (..., 3) m as observations show them: late and noisy, unlike ``achieved``.

        If a policy does not observe the object's position, its columns of the goal do not depend on it either.
        """
        tool = observation[..., self._tool_columns] / DECIMETRES + self._middle
        if self.task.moved == "tool_position":
            return tool
        if (columns := self._object_columns) is None:
            return achieved
        offset = observation[..., columns.start : columns.start + 3] / DECIMETRES
        return torch.as_tensor(self.task.achieved(tool, tool + offset))

    def senses(self) -> dict[str, Array]:
        """Return the pipeline's prepared inputs and privileged values as arrays, for scripted experts."""
        prepared = self._sensed()
        known = {name: array for name, array in self.scene.true(images=False).items() if name not in prepared}
        return {**known, **{name: tensor.numpy().astype(np.float64) for name, tensor in prepared.items()}}

    def expert_action(self) -> Tensor:
        """Return the scripted expert's actions (N, actions)."""
        return torch.from_numpy(self.task.expert().act(self.senses(), self.pipeline).astype(np.float32))

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return ("sparse",) if self.task.rewards == "sparse" else (*self.task.dense(), "lost")

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        scene = self.scene
        return {
            **super().state_dict(),
            "objects": {name: torch.from_numpy(array.copy()) for name, array in scene.drawn.items()},
            "goal": torch.from_numpy(scene.goal.copy()),
            "held": torch.from_numpy(self._held.copy()),
            "noise": scene.rng.bit_generator.state,
            "scene": {one: _each(torch.from_numpy, arrays) for one, arrays in scene.state_dict().items()},
            **({} if scene.cameras is None else {"sight": scene.cameras.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        scene = self.scene
        scene.goal[:] = state["goal"].numpy()
        scene.vary({name: tensor.numpy() for name, tensor in state["objects"].items()})
        self._held, scene.rng.bit_generator.state = state["held"].numpy().copy(), state["noise"]
        if "scene" in state:  # older checkpoints have no departures
            scene.load_state_dict({one: _each(torch.Tensor.numpy, some) for one, some in state["scene"].items()})
        if scene.cameras is not None:
            scene.cameras.load_state_dict(state["sight"])

    def _start(self, index: Index) -> None:
        trials = self.task.draw(self.robot, self._rng, len(index), self._starts)
        self.scene.start(index, replace(trials, departures=self.task.randomisation.draw(self._rng, len(index))))

    def _drive(self, command: Array) -> None:
        self.scene.step(command)

    def _noisy(self, signals: dict[str, Array], index: Any) -> dict[str, Array]:
        return self.scene.noisy(signals, index)

    def _outcome(self, action: Array, lost: Mask) -> Outcome:
        task, view = self.task, self._view(action)
        success = view.success & ~lost
        self._held = np.where(success, self._held + 1, 0)
        long_enough = self._held >= task.hold_steps
        won = long_enough if task.ends else success & long_enough
        # dense rewards continue at the goal, so bootstrap the value after success
        return Outcome(self._terms(view, lost), long_enough & task.ends, won, task.rewards == "dense")

    def _view(self, action: Array) -> ArmTransition:
        scene, prepared = self.scene, self._sensed()
        tool, none = scene.tool(), np.zeros(self.count)
        thing = scene.handled()
        opening, held = none, none > 0.0
        if "opening" in prepared:
            seen = {name: prepared[name].numpy().astype(np.float64) for name in FINGERS}
            opening, held = seen["opening"][:, 0], stopped(seen, self.pipeline)
        achieved = self.task.achieved(tool, thing)
        return ArmTransition(
            tool=tool,
            goal=scene.goal,
            achieved=achieved,
            object=thing,
            half=scene.drawn["half"],
            opening=opening,
            stopped=held,
            action=action,
            last_action=self._last_action,
            success=self.task.done(achieved, scene.goal),
        )

    def _terms(self, view: ArmTransition, lost: Mask) -> dict[str, Array]:
        if self.task.rewards == "sparse":
            return {"sparse": self.task.reward_of(view.achieved, view.goal)}
        period = 1.0 / self.task.rate_hz
        terms = {name: weight * period * term(view) for name, (weight, term) in self.task.dense().items()}
        return {**terms, "lost": self.task.lost * lost.astype(np.float64)}


def _each(function: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: function(array) for name, array in arrays.items()}
