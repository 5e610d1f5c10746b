"""Training environment of N standing quadrupeds, in the MuJoCo worlds of verification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Index, Mask
from rlstack.tasks.core.learning_environment import GoalStep
from rlstack.tasks.core.mujoco_environment import MujocoEnvironment, Outcome
from rlstack.tasks.quadruped.rewards import QuadrupedTransition
from rlstack.tasks.quadruped.scene import StandScene, draw_pushes, draw_trials


class StandEnvironment(MujocoEnvironment):
    """N quadrupeds that learn to stand; a :class:`rlstack.tasks.core.learning_environment.LearningEnvironment`."""

    scene: StandScene
    scene_class = StandScene

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return (*self.task.reward_terms(), "lost")

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions), after the pushes that are due; each push schedules the next."""
        scene, drawn = self.scene, self.task.randomisation
        scene.push(self._age)
        if len(pushed := np.flatnonzero(self._age == scene.push_step)):
            scene.push_m_s[pushed] = draw_pushes(drawn.push_m_s, self._rng, len(pushed))
            scene.push_step[pushed] += self._waits(len(pushed))
        return super().step(action)

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        scene = self.scene
        drawn = {name: torch.from_numpy(getattr(scene, name).copy()) for name in _DRAWN}
        return {**super().state_dict(), **drawn, "noise": scene.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        scene, every = self.scene, np.arange(self.count)
        for name in _DRAWN:
            if name in state:
                getattr(scene, name)[:] = state[name].numpy()
        scene.load(every, scene.payload_kg)
        scene.vary(every, scene.foot_friction, scene.gains)
        scene.rng.bit_generator.state = state["noise"]

    def _start(self, index: Index) -> None:
        drawn, rng, count = self.task.randomisation, self._rng, len(index)
        trials = draw_trials(replace(self.task, push_m_s=drawn.push_m_s), self.robot, rng, count)
        self.scene.start(index, replace(trials, push_step=self._waits(count)))
        (slippery, rough), (weak, strong) = drawn.foot_friction, drawn.gains
        gains = rng.uniform(weak, strong, (count, len(self.robot.drives)))
        self.scene.vary(index, rng.uniform(slippery, rough, count), gains)

    def _waits(self, count: int) -> Index:
        """Draw control periods (count,) until the next pushes."""
        soonest, latest = (round(wait * self.task.rate_hz) for wait in self.task.randomisation.push_every_s)
        return self._rng.integers(soonest, latest, count, endpoint=True)

    def _outcome(self, action: Array, lost: Mask) -> Outcome:
        task, scene = self.task, self.scene
        height, tilt, _ = scene.posture()
        signals = scene.true()
        view = QuadrupedTransition(
            height_error=height - self.robot.standing_height_m,
            tilt=tilt,
            linear_velocity=signals["linear_velocity"],
            angular_velocity=signals["angular_velocity"],
            joint_offset=signals["joint_position"] - self.robot.standing,
            action=action,
            last_action=self._last_action,
        )
        terms = {name: weight / task.rate_hz * term(view) for name, (weight, term) in task.reward_terms().items()}
        never = np.zeros(self.count, dtype=bool)
        return Outcome({**terms, "lost": task.reward.lost * lost}, never, task.stands(self.robot, height, tilt) & ~lost)


_DRAWN = ("payload_kg", "push_m_s", "push_step", "foot_friction", "gains")
"""Arrays of the scene in saved states; runs of earlier versions have no friction and gains."""
