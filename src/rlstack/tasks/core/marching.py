"""What windows of all batch simulators have in common: state, memory and commands of every step, and the way back."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlstack.fused import GRADIENT
from rlstack.tasks.core.rollout import Window, shortened


class BatchRollout(Window):
    """A window over an environment whose step takes a state, a memory and past commands to the next.

    The environment has ``state``, ``memory`` and ``past`` (rows, N), ``passed`` and ``fill_noise``; its ``task_step``
    has ``memory_width``, ``past`` (names of the past commands) and ``device``. Who derives from it sets ``_backward``:
    for each step, what goes back over it.

    Args:
        environment: As of :class:`rlstack.tasks.core.rollout.Window`.
        steps: As there.
        steepest: As there.
        state: Rows of the state.
        command: Rows of a command.
        noise: Rows of the noise of one step.
    """

    environment: Any
    _backward: list[Any]

    def __init__(self, environment: Any, steps: int, steepest: float, *, state: int, command: int, noise: int) -> None:
        super().__init__(environment, steps, steepest)
        step, array, at = environment.task_step, self.array, self.at
        memory = step.memory_width
        self._past = len(step.past)
        self.state, self.memory = array(state, steps + 1), array(memory, steps + 1)
        self.noise = array(noise, steps + 1)
        self.command = array(command, steps + self._past)
        self._state_gradient, self._memory_gradient = array(state, 2), array(memory, 2)
        self._command_gradient = array(command, steps + self._past)
        self._past_gradient = array(command, max(self._past, 1))
        self._raw_state, self._raw_memory = array(state, 1), array(memory, 1)
        shorten = shortened({"state": state, "memory": memory}, step.device)
        self._shorten = [
            shorten.prepare(
                {
                    "state": at(self._raw_state, 0),
                    "memory": at(self._raw_memory, 0),
                    "bound": at(self.bound, 0),
                    "shorter state": at(self._state_gradient, slot),
                    "shorter memory": at(self._memory_gradient, slot),
                }
            )
            for slot in range(2)
        ]

    def begin(self) -> None:
        """Take the robots as they are; who derives from it lets them be observed."""
        env, at = self.environment, self.at
        at(self.state, 0).copy_(env.state)
        at(self.memory, 0).copy_(env.memory)
        for k, past in enumerate(env.past):
            at(self.command, self._past - 1 - k).copy_(past)
        env.fill_noise(self.noise, self.steps + 1)

    def end(self) -> None:
        """Leave the robots as the window left them; nobody has started anew."""
        env, at, last = self.environment, self.at, self.steps
        env.state.copy_(at(self.state, last))
        env.memory.copy_(at(self.memory, last))
        for k, past in enumerate(env.past):
            past.copy_(at(self.command, self._past + last - 1 - k))
        env.passed(self.steps)

    def begin_reverse(self) -> None:
        """Forget the derivatives of the window before: nothing comes after the last step. Write ``seed`` before."""
        super().begin_reverse()
        for array in (self._state_gradient, self._memory_gradient, self._command_gradient):
            array.zero_()

    def reverse(self, t: int) -> None:
        """Go back over step ``t``: from the gradients after it and of the next observation to the action's."""
        self._backward[t]()
        self._shorten[t % 2]()
        for k in range(1, self._past + 1):
            self._command_gradient[:, self._past + t - k] += self._past_gradient[:, k - 1]

    def before(self, t: int) -> dict[str, Tensor]:
        """Return the action of step ``t`` and the commands before it, by name."""
        past = {f"past_{k}": self.at(self.command, self._past + t - k) for k in range(1, self._past + 1)}
        return {"action": self.at(self.action, t), **past}

    def made(self, t: int) -> dict[str, Tensor]:
        """Return what step ``t`` writes, by name."""
        at = self.at
        return {
            "next_state": at(self.state, t + 1),
            "next_memory": at(self.memory, t + 1),
            "command": at(self.command, self._past + t),
            "reward": at(self.reward, t),
            "terms": at(self.terms, t),
            "lost": at(self.lost, t),
        }

    def gradients(self, t: int) -> dict[str, Tensor]:
        """Return what the reverse of step ``t`` reads and writes, by name."""
        after, at = (t + 1) % 2, self.at
        named = {
            "next_state": at(self._state_gradient, after),
            "next_memory": at(self._memory_gradient, after),
            "actor": at(self.observation_gradient, t + 1),
            "reward": at(self.seed, t),
            "state": at(self._raw_state, 0),
            "memory": at(self._raw_memory, 0),
            "action": at(self.action_gradient, t),
            **{f"past_{k}": at(self._past_gradient, k - 1) for k in range(1, self._past + 1)},
        }
        if self._past:
            named["command"] = at(self._command_gradient, self._past + t)
        return {GRADIENT + name: array for name, array in named.items()}
