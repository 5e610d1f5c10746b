"""The window of quadrotors that learn by going through the simulator's gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from rlstack.fused import Kernel
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE_WIDTH
from rlstack.tasks.core.marching import BatchRollout

if TYPE_CHECKING:
    from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment


class QuadrotorRollout(BatchRollout):
    """See :class:`rlstack.tasks.core.rollout.Window`; one fused kernel is a whole step, another its reverse."""

    environment: QuadrotorEnvironment

    def __init__(self, environment: QuadrotorEnvironment, steps: int, steepest: float) -> None:
        step = environment.task_step
        widths = {"state": STATE_WIDTH, "command": environment.pipeline.action_size, "noise": step.noise_width}
        super().__init__(environment, steps, steepest, **widths)
        self.goal = self.array(step.goal_width, steps + 1)
        self._privileged = self.array(environment.critic_size - environment.pipeline.size, 1)
        self._parameters = self.array(PARAMETER_WIDTH, 1)
        seen = {"actor": self.at(self.observation, 0), "privileged": self.at(self._privileged, 0)}
        self._first = step.observe.prepare(self._named(0, seen))
        self._forward = [self._prepared(step.cycle, t, self._written(t)) for t in range(steps)]
        self._backward = [self._prepared(step.cycle_reverse, t, self.gradients(t)) for t in range(steps)]

    def begin(self) -> None:
        """Take the robots as they are, and observe them."""
        super().begin()
        env = self.environment
        self.at(self._parameters, 0).copy_(env.parameters)
        if env.task_step.goal_width:
            env.fill_goal(self.goal, self.steps + 1)
        self._first()

    def advance(self, t: int) -> None:
        """Take the action of step ``t``; the next observation is there then."""
        self._forward[t]()

    def _named(self, t: int, more: Mapping[str, Tensor]) -> dict[str, Tensor]:
        given = {"state": self.state, "memory": self.memory, "noise": self.noise, "goal": self.goal}
        named = {name: self.at(array, t) for name, array in given.items()}
        return {**named, "parameters": self.at(self._parameters, 0), **more}

    def _prepared(self, kernel: Kernel, t: int, more: Mapping[str, Tensor]) -> Callable[[], None]:
        following = {"next_noise": self.at(self.noise, t + 1), "next_goal": self.at(self.goal, t + 1)}
        return kernel.prepare(self._named(t, {**self.before(t), **following, **more}))

    def _written(self, t: int) -> dict[str, Tensor]:
        return {**self.made(t), "actor": self.at(self.observation, t + 1)}
