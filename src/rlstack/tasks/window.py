"""A window of steps of the training environment, kept so that it can be gone through backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rlstack.fused import GRADIENT, Kernel, minimum, zeros
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE_WIDTH

if TYPE_CHECKING:
    from rlstack.tasks.environment import TrainingEnvironment

_LINE = 16

Rows = np.ndarray[Any, Any]


class Window:
    """What N robots go through in T steps, with its derivatives.

    Arrays are (rows, slots, N), so that one step's rows can be given to a kernel and all steps' to a matrix product.
    Slot ``t`` of ``observation`` is what the policy sees before step ``t``, of ``action`` what it then does, and of
    ``reward`` what that earned.

    Use: :meth:`begin`; for each step write ``action`` and call :meth:`advance`; :meth:`end`. Then write ``seed``, the
    objective's derivative with respect to each reward, and for each step from the last to the first call
    :meth:`reverse`, which gives the action's gradient, and write the observation's gradient that follows from it.

    Args:
        environment: Whose robots fly; it goes on from where the window ends.
        steps: T.
        steepest: Bound on the length of one robot's gradient at any step, as a multiple of the derivative by one
            step's reward; longer ones are shortened to it on their way back. The motion of a robot that tumbles is
            chaotic: its gradient doubles every few steps and would drown everyone else's, or overflow.
    """

    def __init__(self, environment: TrainingEnvironment, steps: int, steepest: float) -> None:
        self.environment, self.steps = environment, steps
        step, count = environment.task_step, environment.count
        self._past = len(step.past)
        actions = environment.pipeline.action_size

        def array(rows: int, slots: int) -> Tensor:
            slots += 1 - slots % 2  # with the odd stride of a slot: see rlstack.fused.zeros
            stride = (-(-count // _LINE) | 1) * _LINE
            memory = torch.from_numpy(zeros(rows, slots * stride)).to(environment.device)
            return memory.as_strided((rows, slots, stride), (memory.stride(0), stride, 1))

        self.count = count
        self.state = array(STATE_WIDTH, steps + 1)
        self.memory = array(step.memory_width, steps + 1)
        self.noise = array(step.noise_width, steps + 1)
        self.goal = array(step.goal_width, steps + 1)
        self.command = array(actions, steps + self._past)
        self.observation = array(environment.pipeline.size, steps + 1)
        self._privileged = array(environment.critic_size - environment.pipeline.size, 1)
        self.action = array(actions, steps)
        self.reward, self.lost = array(1, steps), array(1, steps)
        self.terms = array(len(environment.term_names()), steps)
        self.seed = array(1, steps)
        """The objective's derivative with respect to each reward."""
        self.observation_gradient = array(environment.pipeline.size, steps + 1)
        self.action_gradient = array(actions, steps)
        self._state_gradient, self._memory_gradient = array(STATE_WIDTH, 2), array(step.memory_width, 2)
        self._command_gradient = array(actions, steps + self._past)
        self._past_gradient = array(actions, max(self._past, 1))
        self._raw_state, self._raw_memory = array(STATE_WIDTH, 1), array(step.memory_width, 1)
        self.bound = array(1, 1)
        self.steepest = steepest
        self._parameters = array(PARAMETER_WIDTH, 1)
        seen = {"actor": self._at(self.observation, 0), "privileged": self._at(self._privileged, 0)}
        self._first = step.observe.prepare(self._named(0, seen))
        self._forward = [self._prepared(step.cycle, t, self._made(t)) for t in range(steps)]
        self._backward = [self._prepared(step.cycle_reverse, t, self._gradients(t)) for t in range(steps)]
        shorten = shortened({"state": STATE_WIDTH, "memory": step.memory_width}, step.device)
        self._shorten = [shorten.prepare(self._shortening(slot)) for slot in range(2)]

    def begin(self) -> None:
        """Take the robots as they are, and observe them."""
        env = self.environment
        self._at(self._parameters, 0).copy_(env.parameters)
        self._at(self.state, 0).copy_(env.state)
        self._at(self.memory, 0).copy_(env.memory)
        for k, past in enumerate(env.past):
            self._at(self.command, self._past - 1 - k).copy_(past)
        env.fill_noise(self.noise, self.steps + 1)
        if env.task_step.goal_width:
            env.fill_goal(self.goal, self.steps + 1)
        self._first()

    def advance(self, t: int) -> None:
        """Take the action of step ``t``; the next observation is there then."""
        self._forward[t]()

    def end(self) -> None:
        """Leave the robots as the window left them; nobody has started anew."""
        env, last = self.environment, self.steps
        env.state.copy_(self._at(self.state, last))
        env.memory.copy_(self._at(self.memory, last))
        for k, past in enumerate(env.past):
            past.copy_(self._at(self.command, self._past + last - 1 - k))
        env.passed(self.steps)

    def begin_reverse(self) -> None:
        """Forget the derivatives of the window before: nothing comes after the last step. Write ``seed`` before."""
        for array in (self._state_gradient, self._memory_gradient, self._command_gradient):
            array.zero_()
        self.observation_gradient[:, self.steps].zero_()
        self.bound[:] = self.seed.abs().max() * self.steepest

    def reverse(self, t: int) -> None:
        """Go back over step ``t``: from the gradients after it and of the next observation to the action's."""
        self._backward[t]()
        self._shorten[t % 2]()
        for k in range(1, self._past + 1):
            self._command_gradient[:, self._past + t - k] += self._past_gradient[:, k - 1]

    def not_finite(self) -> str:
        """Return in words what, on the way back, was the first whose gradient is not finite."""
        for t in reversed(range(self.steps)):
            when = f"at step {t + 1} of the window's {self.steps}"
            if not torch.isfinite(self._at(self.action_gradient, t)).all():
                return f"the action {when}"
            finite = torch.isfinite(self._at(self.observation_gradient, t)).all(dim=1)
            for term in self.environment.pipeline.table():
                if not finite[term.start : term.start + term.size].all():
                    return f"the observation term '{term.name}' {when}"
        return "the network's weights"

    def flat(self, array: Tensor, slots: int) -> Tensor:
        """Return the first ``slots`` of an array as one matrix (rows, slots * stride); beyond N it is zero."""
        rows, _, stride = array.shape
        return array.as_strided((rows, slots * stride), (array.stride(0), 1))

    def at(self, array: Tensor, slot: int) -> Tensor:
        """Return one slot of an array, (rows, N)."""
        return self._at(array, slot)

    def at_all(self, array: Tensor) -> Tensor:
        """Return the steps of an array, (rows, T, N)."""
        return array[:, : self.steps, : self.count]

    def _at(self, array: Tensor, slot: int) -> Tensor:
        return array[:, slot, : self.count]

    def _named(self, t: int, more: Mapping[str, Tensor]) -> dict[str, Tensor]:
        given = {"state": self.state, "memory": self.memory, "noise": self.noise, "goal": self.goal}
        named = {name: self._at(array, t) for name, array in given.items()}
        return {**named, "parameters": self._at(self._parameters, 0), **more}

    def _prepared(self, kernel: Kernel, t: int, more: Mapping[str, Tensor]) -> Callable[[], None]:
        past = {f"past_{k}": self._at(self.command, self._past + t - k) for k in range(1, self._past + 1)}
        following = {"next_noise": self._at(self.noise, t + 1), "next_goal": self._at(self.goal, t + 1)}
        action = {"action": self._at(self.action, t)}
        return kernel.prepare(self._named(t, {**action, **past, **following, **more}))

    def _shortening(self, slot: int) -> dict[str, Tensor]:
        return {
            "state": self._at(self._raw_state, 0),
            "memory": self._at(self._raw_memory, 0),
            "bound": self._at(self.bound, 0),
            "shorter state": self._at(self._state_gradient, slot),
            "shorter memory": self._at(self._memory_gradient, slot),
        }

    def _made(self, t: int) -> dict[str, Tensor]:
        return {
            "next_state": self._at(self.state, t + 1),
            "next_memory": self._at(self.memory, t + 1),
            "command": self._at(self.command, self._past + t),
            "actor": self._at(self.observation, t + 1),
            "reward": self._at(self.reward, t),
            "terms": self._at(self.terms, t),
            "lost": self._at(self.lost, t),
        }

    def _gradients(self, t: int) -> dict[str, Tensor]:
        after = (t + 1) % 2
        named = {
            "next_state": self._at(self._state_gradient, after),
            "next_memory": self._at(self._memory_gradient, after),
            "command": self._at(self._command_gradient, self._past + t),
            "actor": self._at(self.observation_gradient, t + 1),
            "reward": self._at(self.seed, t),
            "state": self._at(self._raw_state, 0),
            "memory": self._at(self._raw_memory, 0),
            "action": self._at(self.action_gradient, t),
            **{f"past_{k}": self._at(self._past_gradient, k - 1) for k in range(1, self._past + 1)},
        }
        return {GRADIENT + name: array for name, array in named.items()}


def shortened(rows: Mapping[str, int], device: str) -> Kernel:
    """Return the kernel that shortens each robot's gradient, of all arrays together, to its ``bound``.

    Args:
        rows: Of each array; what comes out of ``x`` is called ``shorter x``.
        device: Where it runs.
    """

    def shorten(bound: Rows, **arrays: Rows) -> dict[str, Rows]:
        length = np.sqrt(sum((array * array).sum() for array in arrays.values()) + 1e-30)
        share = minimum(bound[0] / length, 1.0)
        return {f"shorter {name}": array * share for name, array in arrays.items()}

    return Kernel(shorten, {**rows, "bound": 1}, device=device)
