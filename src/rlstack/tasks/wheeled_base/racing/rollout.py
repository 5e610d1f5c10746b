"""The window of cars that learn by going through the batch simulator's gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from rlstack.sim.bases.layout import STATE, STATE_WIDTH
from rlstack.tasks.core.marching import BatchRollout
from rlstack.tasks.wheeled_base.racing.step import PRIVILEGED
from rlstack.tasks.wheeled_base.racing.tracks import FRAME_WIDTH

if TYPE_CHECKING:
    from rlstack.tasks.wheeled_base.racing.environment import RacingEnvironment


class RacingRollout(BatchRollout):
    """See :class:`rlstack.tasks.core.rollout.Window`."""

    environment: RacingEnvironment

    def __init__(self, environment: RacingEnvironment, steps: int, steepest: float) -> None:
        step = environment.task_step
        widths = {"state": STATE_WIDTH, "command": step.model.command_width, "noise": step.noise_width}
        super().__init__(environment, steps, steepest, **widths)
        array, at = self.array, self.at
        self.ranges, self.slopes = array(len(step.rays), steps + 1), array(len(step.rays), steps + 1)
        self.frame = array(FRAME_WIDTH, steps + 1)
        self._privileged = array(len(PRIVILEGED), 1)
        slots = range(steps + 1)
        self._measure = [
            environment.measuring(at(self.state, t), at(self.ranges, t), at(self.slopes, t)) for t in slots
        ]
        seen = [{"actor": at(self.observation, t), "privileged": at(self._privileged, 0)} for t in slots]
        self._observe = [step.observe.prepare({**self._given(t), **seen[t]}) for t in slots]
        self._act = [step.act.prepare({**self._given(t), **self._acted(t), **self.made(t)}) for t in slots[:-1]]
        self._backward = [
            step.reverse.prepare({**self._given(t), **self._acted(t), **self._following(t), **self.gradients(t)})
            for t in slots[:-1]
        ]

    def begin(self) -> None:
        """Take the cars as they are, and observe them."""
        super().begin()
        self._sense(0)

    def advance(self, t: int) -> None:
        """Take the action of step ``t``; the next observation is there then."""
        self._act[t]()
        self._sense(t + 1)

    def _sense(self, t: int) -> None:
        self.environment.look_up(self.at(self.state, t), self.at(self.frame, t))
        self._measure[t]()
        self._observe[t]()

    def _given(self, t: int) -> dict[str, Tensor]:
        slots = {"state": self.state, "memory": self.memory, "frame": self.frame}
        slots = {**slots, "ranges": self.ranges, "noise": self.noise}
        return {name: self.at(array, t) for name, array in slots.items()}

    def _acted(self, t: int) -> dict[str, Tensor]:
        return {**self.before(t), "parameters": self.environment.parameters}

    def _following(self, t: int) -> dict[str, Tensor]:
        pose = self.at(self.state, t + 1)[: STATE["turn"].stop]
        at, after = self.at, t + 1
        rows = {"next_ranges": at(self.ranges, after), "next_slopes": at(self.slopes, after)}
        return {**rows, "next_noise": at(self.noise, after), "next_pose": pose}
