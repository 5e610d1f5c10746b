"""N quadrupeds that learn to stand, in the same MuJoCo worlds that a policy is judged in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Index, Mask
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.tasks.core.interface import GoalStep
from rlstack.tasks.core.mujoco_environment import MujocoEnvironment, Outcome
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.quadruped.scene import StandScene, draw_trials


class StandEnvironment(MujocoEnvironment):
    """A :class:`rlstack.tasks.core.interface.LearningEnvironment`.

    Args:
        task: The task's configuration.
        robot: The robot.
        pipeline: Makes the observation, and joint targets of actions.
        count: N.
        device: That steps the worlds.
        seed: Of starts, noise and generator.
        threads: Threads that step the worlds on the CPU; None: one per core.

    Raises:
        UserError: The device is not there or lacks a package.
    """

    def __init__(
        self,
        task: Any,
        robot: Quadruped,
        pipeline: Pipeline,
        count: int,
        *,
        device: str = "cpu",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.scene = StandScene(task, robot, count, seed, threads, device)
        super().__init__(task, robot, pipeline, self.scene.worlds, seed)
        self.reset_all()

    def seed(self, seed: int) -> None:
        """Reseed the generators."""
        super().seed(seed)
        self.scene.rng = np.random.default_rng((seed, 1))

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return (*self.task.rates, "lost")

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions); robots are pushed when it is their time."""
        self.scene.push(self._age)
        return super().step(action)

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes as the environment runs, so that it can go on exactly."""
        scene = self.scene
        drawn = {name: torch.from_numpy(getattr(scene, name).copy()) for name in _DRAWN}
        return {**super().state_dict(), **drawn, "noise": scene.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        super().load_state_dict(state)
        for name in _DRAWN:
            getattr(self.scene, name)[:] = state[name].numpy()
        self.scene.load(np.arange(self.count), self.scene.payload_kg)
        self.scene.rng.bit_generator.state = state["noise"]

    def _start(self, index: Index) -> None:
        self.scene.start(index, draw_trials(self.task, self.robot, self._rng, len(index)))

    def _signals(self) -> dict[str, Array]:
        return self.scene.true()

    def _noisy(self, signals: dict[str, Array]) -> dict[str, Array]:
        return self.scene.noisy(signals)

    def _lost(self) -> Mask:
        return self.scene.lost()

    def _outcome(self, action: Array, lost: Mask) -> Outcome:
        task, scene = self.task, self.scene
        height, tilt = scene.posture()
        signals = scene.true()
        seen = {
            "height": np.exp(-(((height - self.robot.standing_height_m) / task.tolerance_m) ** 2)),
            "level": np.exp(-((tilt / task.tolerance_rad) ** 2)),
            "speed": np.square(signals["linear_velocity"]).sum(axis=1),
            "turning": np.square(signals["angular_velocity"]).sum(axis=1),
            "posture": np.square(signals["joint_position"] - self.robot.standing).sum(axis=1),
            "action_change": np.square(action - self._last_action).sum(axis=1),
        }
        terms = {name: weight / task.rate_hz * seen[name] for name, weight in task.rates.items()}
        never = np.zeros(self.count, dtype=bool)
        return Outcome({**terms, "lost": task.reward.lost * lost}, never, task.stands(self.robot, height, tilt) & ~lost)


_DRAWN = ("payload_kg", "push_m_s", "push_step")
"""Of each world's trial, kept with the state."""
