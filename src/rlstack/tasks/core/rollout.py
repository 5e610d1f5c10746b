"""Differentiable rollouts: recorded steps of N robots in a batch simulator, and their reverse mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.fused import GRADIENT, Kernel, minimum, zeros
from rlstack.fused.expression import Rows

_LINE = 16


class DifferentiableRollout:
    """T recorded steps of N robots, with their derivatives.

    Arrays are (rows, slots, N), so that a kernel takes one step's rows and a matrix product takes all steps'.
    Slot ``t`` of ``observation`` is the policy's input at step ``t``, of ``action`` its output, and of ``reward`` the
    resulting reward.

    Use: :meth:`begin`; for each step write ``action`` and call :meth:`advance`; :meth:`end`. Then write ``seed``, the
    objective's derivative with respect to each reward, call :meth:`begin_reverse`, and for each step from the last to
    the first call :meth:`reverse`, which computes the action's gradient, and write the resulting gradient of the
    observation.

    Gradients flow through the step, but stop at values that the environment measures between steps.

    Args:
        environment: The :class:`rlstack.tasks.core.batch_environment.BatchEnvironment` to step; it continues from
            the end of the rollout.
        steps: T.
        steepest: Bound on the length of one robot's gradient at any step, as a multiple of the derivative by one
            step's reward; longer ones are clipped on their way back. The gradient of chaotic motion doubles every
            few steps, and would dominate the other robots' gradients or overflow.
    """

    def __init__(self, environment: Any, steps: int, steepest: float) -> None:
        self.environment, self.steps, self.count, self.steepest = environment, steps, environment.count, steepest
        self._allocate()
        step = environment.task_step
        slots = range(steps + 1)
        self._step_arrays = [environment.step_arrays(self._slot_arrays(t)) for t in slots]
        given = [self._given(t) for t in slots]
        scratch = self.at(self.array(environment.critic_size - environment.pipeline.size, 1), 0)
        observing = slots if environment.measures_each_step else (0,)
        self._sense = [environment.sensing(self._step_arrays[t]) for t in observing]
        self._observe = [
            step.observe.prepare({**given[t], "actor": self.at(self.observation, t), "privileged": scratch})
            for t in observing
        ]
        forward = step.act if environment.measures_each_step else step.cycle
        acted = [self._acted(t) for t in slots[:-1]]
        self._forward = [forward.prepare({**acted[t], **self._made(t)}) for t in slots[:-1]]
        self._backward = [step.cycle_reverse.prepare({**acted[t], **self._gradients(t)}) for t in slots[:-1]]

    def _allocate(self) -> None:
        environment, steps, array, at = self.environment, self.steps, self.array, self.at
        step, pipeline = environment.task_step, environment.pipeline
        self._past = len(step.past)
        self.observation, self.action = array(pipeline.size, steps + 1), array(pipeline.action_size, steps)
        self.reward, self.lost = array(1, steps), array(1, steps)
        self.terms = array(len(environment.term_names()), steps)
        self.seed = array(1, steps)
        """The objective's derivative with respect to each reward."""
        self.observation_gradient = array(pipeline.size, steps + 1)
        self.action_gradient = array(pipeline.action_size, steps)
        self.bound = array(1, 1)
        self.acting = None if environment.acting(steps) is None else array(1, steps)
        """1 where the policy is called and 0 where its command holds; None: it always is."""
        widths = {"state": step.state_width, "memory": step.memory_width}
        self.state, self.memory = (array(rows, steps + 1) for rows in widths.values())
        self.noise = array(step.noise_width, steps + 1)
        self.command = array(step.command_width, steps + self._past)
        self.inputs = {name: array(len(rows), steps + 1) for name, rows in environment.varying().items()}
        """Arrays that the environment measures or moves at each step, by name."""
        self._state_gradient, self._memory_gradient = (array(rows, 2) for rows in widths.values())
        self._command_gradient = array(step.command_width, steps + self._past)
        self._past_gradient = array(step.command_width, max(self._past, 1))
        self._raw_state, self._raw_memory = (array(rows, 1) for rows in widths.values())
        shorten = shortened(widths, step.device)
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
        """Copy the robots' present state, and observe it."""
        env, at = self.environment, self.at
        at(self.state, 0).copy_(env.state)
        at(self.memory, 0).copy_(env.memory)
        for k, past in enumerate(env.past):
            at(self.command, self._past - 1 - k).copy_(past)
        if self.acting is not None:
            self.at_all(self.acting)[0].copy_(env.acting(self.steps))
        env.fill_noise(self.noise, self.steps + 1)
        env.begin_rollout(self.inputs, self.steps + 1)
        self._sense[0]()
        self._observe[0]()

    def advance(self, t: int) -> None:
        """Apply the action of step ``t`` and compute the next observation."""
        if not self.environment.measures_each_step:
            self._forward[t]()
            return
        self.environment.begin_step(self._step_arrays[t], self._step_arrays[t + 1])
        self._forward[t]()
        self._sense[t + 1]()
        self._observe[t + 1]()

    def end(self) -> None:
        """Copy the final state back to the environment; no robot is reset."""
        env, at, last = self.environment, self.at, self.steps
        env.state.copy_(at(self.state, last))
        env.memory.copy_(at(self.memory, last))
        for k, past in enumerate(env.past):
            past.copy_(at(self.command, self._past + last - 1 - k))
        env.end_rollout(self._step_arrays[last])
        env.advance_counters(self.steps)

    def begin_reverse(self) -> None:
        """Zero the gradients after the last step. Write ``seed`` first."""
        self.observation_gradient[:, self.steps].zero_()
        self.bound[:] = self.seed.abs().max() * self.steepest
        for array in (self._state_gradient, self._memory_gradient, self._command_gradient):
            array.zero_()

    def reverse(self, t: int) -> None:
        """Reverse step ``t``: from the gradients after it and of the next observation to the action's."""
        self._backward[t]()
        self._shorten[t % 2]()
        for k in range(1, self._past + 1):
            self._command_gradient[:, self._past + t - k] += self._past_gradient[:, k - 1]

    def not_finite(self) -> str:
        """Return, in words, where in the backward pass a gradient was first not finite."""
        for t in reversed(range(self.steps)):
            when = f"at step {t + 1} of the rollout's {self.steps}"
            if not torch.isfinite(self.at(self.action_gradient, t)).all():
                return f"the action {when}"
            finite = torch.isfinite(self.at(self.observation_gradient, t)).all(dim=1)
            for term in self.environment.pipeline.table():
                if not finite[term.start : term.start + term.size].all():
                    return f"the observation term '{term.name}' {when}"
        return "the network's weights"

    def array(self, rows: int, slots: int) -> Tensor:
        """Return zeros (rows, slots, >= N) in a cache-friendly layout."""
        slots += 1 - slots % 2  # with the odd stride of a slot: see rlstack.fused.zeros
        stride = (-(-self.count // _LINE) | 1) * _LINE
        memory = torch.from_numpy(zeros(rows, slots * stride)).to(self.environment.device)
        return memory.as_strided((rows, slots, stride), (memory.stride(0), stride, 1))

    def flat(self, array: Tensor, slots: int) -> Tensor:
        """Return the first ``slots`` of an array as one matrix (rows, slots * stride); beyond N it is zero."""
        rows, _, stride = array.shape
        return array.as_strided((rows, slots * stride), (array.stride(0), 1))

    def at(self, array: Tensor, slot: int) -> Tensor:
        """Return one slot of an array, (rows, N)."""
        return array[:, slot, : self.count]

    def at_all(self, array: Tensor) -> Tensor:
        """Return the steps of an array, (rows, T, N)."""
        return array[:, : self.steps, : self.count]

    def _slot_arrays(self, t: int) -> dict[str, Tensor]:
        """Return the arrays of one time step, by name."""
        arrays = {"state": self.state, "memory": self.memory, "noise": self.noise, **self.inputs}
        return {name: self.at(array, t) for name, array in arrays.items()}

    def _given(self, t: int) -> dict[str, Tensor]:
        return {**self.environment.fixed(), **self._step_arrays[t]}

    def _acted(self, t: int) -> dict[str, Tensor]:
        """Return the arrays that step ``t`` and its reverse read, by name."""
        step, now, after = self.environment.task_step, self._given(t), self._given(t + 1)
        past = {f"past_{k}": self.at(self.command, self._past + t - k) for k in range(1, self._past + 1)}
        return {
            **now,
            **{name: after[name] for name in step.inputs_after_step},
            **{f"next_{name}": after[name] for name in step.following},
            "action": self.at(self.action, t),
            **past,
        }

    def _made(self, t: int) -> dict[str, Tensor]:
        """Return the arrays that step ``t`` writes, by name."""
        at = self.at
        return {
            "next_state": at(self.state, t + 1),
            "next_memory": at(self.memory, t + 1),
            "command": at(self.command, self._past + t),
            "reward": at(self.reward, t),
            "terms": at(self.terms, t),
            "lost": at(self.lost, t),
            "actor": at(self.observation, t + 1),
        }

    def _gradients(self, t: int) -> dict[str, Tensor]:
        """Return the gradients that the reverse of step ``t`` reads and writes, by name."""
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


def shortened(rows: Mapping[str, int], device: str) -> Kernel:
    """Return the kernel that clips the norm of each robot's gradient, over all arrays, to its ``bound``.

    Args:
        rows: Number of rows of each array; the output for ``x`` is named ``shorter x``.
        device: Device of the kernel.
    """

    def shorten(bound: Rows, **arrays: Rows) -> dict[str, Rows]:
        length = np.sqrt(sum((array * array).sum() for array in arrays.values()) + 1e-30)
        share = minimum(bound[0] / length, 1.0)
        return {f"shorter {name}": array * share for name, array in arrays.items()}

    return Kernel(shorten, {**rows, "bound": 1}, device=device)
