"""The window of bases that learn by going through the batch simulator's gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from rlstack.sim.bases.layout import STATE_WIDTH
from rlstack.tasks.core.marching import BatchRollout
from rlstack.tasks.wheeled_base.step import GUIDE_WIDTH, NOISE_WIDTH

if TYPE_CHECKING:
    from rlstack.tasks.wheeled_base.environment import BaseEnvironment


class BaseRollout(BatchRollout):
    """See :class:`rlstack.tasks.core.rollout.Window`.

    No gradient goes through what is measured between the kernels: a scan jumps where it passes an edge, and the way
    to the goal says where to go whatever led there.
    """

    environment: BaseEnvironment

    def __init__(self, environment: BaseEnvironment, steps: int, steepest: float) -> None:
        step = environment.task_step
        widths = {"state": STATE_WIDTH, "command": step.model.command_width, "noise": NOISE_WIDTH}
        super().__init__(environment, steps, steepest, **widths)
        array, at = self.array, self.at
        self.guide, self.scan = array(GUIDE_WIDTH, steps + 1), array(len(step.rays), steps + 1)
        self._moving = environment.movers is not None
        self.circles = array(step.circle_rows, steps + 1 if self._moving else 1)
        self._privileged = array(step.privileged_width, 1)
        slots = range(steps + 1)
        self._measure = [environment.measuring(at(self.state, t), self._circles(t), at(self.scan, t)) for t in slots]
        seen = [{"actor": at(self.observation, t), "privileged": at(self._privileged, 0)} for t in slots]
        self._observe = [step.observe.prepare({**self._given(t), **seen[t]}) for t in slots]
        self._act = [step.act.prepare({**self._given(t), **self._acted(t), **self.made(t)}) for t in slots[:-1]]
        self._backward = [
            step.reverse.prepare({**self._given(t), **self._acted(t), **self._following(t), **self.gradients(t)})
            for t in slots[:-1]
        ]

    def begin(self) -> None:
        """Take the robots as they are, and observe them."""
        super().begin()
        self._circles(0).copy_(self.environment.circles)
        self._sense(0)

    def advance(self, t: int) -> None:
        """Take the action of step ``t``; the next observation is there then."""
        if self._moving:
            self.environment.move(self.at(self.state, t), self._circles(t), self._circles(t + 1))
        self._act[t]()
        self._sense(t + 1)

    def end(self) -> None:
        """Leave the robots as the window left them; nobody has started anew."""
        super().end()
        self.environment.circles.copy_(self._circles(self.steps))

    def _sense(self, t: int) -> None:
        self._measure[t]()
        self.environment.find_way(self.at(self.state, t), self.at(self.guide, t))
        self._observe[t]()

    def _circles(self, t: int) -> Tensor:
        return self.at(self.circles, t if self._moving else 0)

    def _given(self, t: int) -> dict[str, Tensor]:
        slots = {"state": self.state, "memory": self.memory, "noise": self.noise, "guide": self.guide}
        named = {name: self.at(array, t) for name, array in slots.items()}
        around = {"boxes": self.environment.boxes, "goal": self.environment.goal, "circles": self._circles(t)}
        return {**named, **around, **({"scan": self.at(self.scan, t)} if self.environment.task_step.rays else {})}

    def _acted(self, t: int) -> dict[str, Tensor]:
        # whoever moves has moved when the robot is judged
        return {**self.before(t), "circles": self._circles(t + 1), "parameters": self.environment.parameters}

    def _following(self, t: int) -> dict[str, Tensor]:
        after = self._given(t + 1)
        names = ("noise", "guide", "circles", *(["scan"] if self.environment.task_step.rays else []))
        return {f"next_{name}": after[name] for name in names}
