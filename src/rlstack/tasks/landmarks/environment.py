"""Training environment of mobile robots in rooms with landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Index, Mask
from rlstack.robots import frames
from rlstack.tasks.core.chunk_environment import ChunkEnvironment
from rlstack.tasks.core.mujoco_environment import Outcome
from rlstack.tasks.core.pipeline import TermInfo, term_table
from rlstack.tasks.landmarks.scene import LandmarkScene
from rlstack.tasks.landmarks.trials import LandmarkTrials


class LandmarkEnvironment(ChunkEnvironment):
    """N robots at a :class:`.LandmarkTask`; a goal is a distance, m, and a speed, m/s, that are not to be exceeded."""

    scene: LandmarkScene
    scene_class = LandmarkScene
    no_gradients = "The images of this task give no gradients: learn with vla_sft, vla_ppo or ppo."

    def _set_up(self) -> None:
        self._held = np.zeros(self.count, dtype=np.intp)
        """(N,) number of consecutive steps in which the robot was there and stayed."""

    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``."""
        super().restart(index)
        self._held[index.numpy()] = 0

    def privileged_table(self) -> list[TermInfo]:
        """Return one row for each term of :meth:`privileged`, in order."""
        others = self.task.landmarks - 1
        return term_table(
            [
                ("object_offset", 2, "share", "named landmark, seen from above from the robot, of the room's depth"),
                ("gap", 1, "share", "distance from its surface, likewise"),
                ("other_offset", 2 * others, "share", "each other landmark, likewise"),
                ("velocity", 3, "m/s", "of the robot in base_link"),
                ("age", 1, "share", "of the episode that has passed"),
                ("held", 1, "share", "of the time for which it must stay"),
            ]
        )

    def privileged(self) -> Tensor:
        """Return what a critic may know and a policy does not, (N, privileged_size), without noise."""
        task, depth = self.task, self.task.room.depth_m
        offset, (gap, _) = self._offsets() / depth, self.scene.measure()
        columns = [
            offset[:, 0],
            gap[:, None] / depth,
            offset[:, 1:].reshape(self.count, -1),
            self.scene.vehicles.signals()["linear_velocity"],
            self._age[:, None] / task.steps,
            np.minimum(self._held[:, None] / task.hold_steps, 1.0),
        ]
        return torch.from_numpy(np.nan_to_num(np.concatenate(columns, axis=1)).astype(np.float32))

    def expert_action(self) -> Tensor:
        """Return the scripted expert's actions (N, actions)."""
        gap, _ = self.scene.measure()
        action = self.task.expert_action(self._offsets()[:, 0], gap, self.scene.vehicles.signals())
        return torch.from_numpy(action.astype(np.float32))

    def noisy_actions(self) -> Tensor:
        """Return (N, actions): 1 but for robots that are near enough, which would never stand still."""
        gap, _ = self.scene.measure()
        near = torch.from_numpy(gap <= self.task.arrival_m)[:, None]
        return (~near).float().expand(-1, self.pipeline.action_size)

    def achieved_goal(self) -> Tensor:
        """Return (N, 2): distance from the named landmark, m, and speed, m/s."""
        return torch.from_numpy(np.stack(self.scene.measure(), axis=1).astype(np.float32))

    def desired_goal(self) -> Tensor:
        """Return (N, 2): the largest distance and speed that count."""
        wanted = torch.tensor([self.task.arrival_m, self.task.still_m_s])
        return wanted.expand(self.count, 2).clone()

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the sparse reward (n,) of steps that led to ``achieved`` (n, 2)."""
        return (achieved <= desired).all(dim=-1).float() - 1.0

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return ("sparse",)

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        scene = self.scene
        return {
            **super().state_dict(),
            "held": torch.from_numpy(self._held.copy()),
            "noise": scene.rng.bit_generator.state,
            "scene": {
                one: {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
                for one, arrays in scene.state_dict().items()
            },
            "sight": scene.cameras.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        scene = self.scene
        self._held, scene.rng.bit_generator.state = state["held"].numpy().copy(), state["noise"]
        scene.load_state_dict(
            {one: {name: array.numpy() for name, array in arrays.items()} for one, arrays in state["scene"].items()}
        )
        scene.cameras.load_state_dict(state["sight"])

    def _draw(self, count: int) -> LandmarkTrials:
        trials: LandmarkTrials = self.task.draw(self.robot, self._rng, count)
        return trials

    def _start(self, index: Index) -> None:
        count = len(index) // self._group
        self.scene.start(index, self._draw(count).take(np.arange(count).repeat(self._group)))

    def _drive(self, command: Array) -> None:
        self.scene.step(command)

    def _waiting(self) -> Array:
        return self.scene.vehicles.waiting()

    def _outcome(self, action: Array, lost: Mask) -> Outcome:
        task = self.task
        success = task.there(*self.scene.measure()) & ~lost
        self._held = np.where(success, self._held + 1, 0)
        never = np.zeros(self.count, np.bool_)
        return Outcome({"sparse": success - 1.0}, never, success & (self._held >= task.hold_steps))

    def _offsets(self) -> Array:
        """Return (N, M, 2) m: the landmarks in the robots' horizontal frames."""
        pose = self.worlds.state
        offset = self.scene.trials.place[..., :2] - pose[:, None, :2]
        yaw = frames.yaw(pose[:, 3:])[:, None]
        cos, sin = np.cos(yaw), np.sin(yaw)
        x, y = offset[..., 0], offset[..., 1]
        return np.stack([cos * x + sin * y, cos * y - sin * x], axis=-1)
