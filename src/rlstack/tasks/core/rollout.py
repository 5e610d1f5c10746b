"""A window of steps of a training environment, kept so that it can be gone through backwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rlstack.fused import Kernel, minimum, zeros

if TYPE_CHECKING:
    from rlstack.tasks.core.interface import LearningEnvironment

_LINE = 16

Rows = np.ndarray[Any, Any]


class Window(ABC):
    """What N robots go through in T steps, with its derivatives.

    Arrays are (rows, slots, N), so that one step's rows can be given to a kernel and all steps' to a matrix product.
    Slot ``t`` of ``observation`` is what the policy sees before step ``t``, of ``action`` what it then does, and of
    ``reward`` what that earned.

    Use: :meth:`begin`; for each step write ``action`` and call :meth:`advance`; :meth:`end`. Then write ``seed``, the
    objective's derivative with respect to each reward, call :meth:`begin_reverse`, and for each step from the last to
    the first call :meth:`reverse`, which gives the action's gradient, and write the observation's gradient that follows
    from it.

    Args:
        environment: Whose robots move; it goes on from where the window ends.
        steps: T.
        steepest: Bound on the length of one robot's gradient at any step, as a multiple of the derivative by one
            step's reward; longer ones are shortened to it on their way back. Motion can be chaotic: its gradient
            doubles every few steps then, and would drown everyone else's, or overflow.
    """

    def __init__(self, environment: LearningEnvironment, steps: int, steepest: float) -> None:
        self.environment, self.steps, self.count, self.steepest = environment, steps, environment.count, steepest
        columns, actions = environment.pipeline.size, environment.pipeline.action_size
        self.observation = self.array(columns, steps + 1)
        self.action = self.array(actions, steps)
        self.reward, self.lost = self.array(1, steps), self.array(1, steps)
        self.terms = self.array(len(environment.term_names()), steps)
        self.seed = self.array(1, steps)
        """The objective's derivative with respect to each reward."""
        self.observation_gradient = self.array(columns, steps + 1)
        self.action_gradient = self.array(actions, steps)
        self.bound = self.array(1, 1)

    @abstractmethod
    def begin(self) -> None:
        """Take the robots as they are, and observe them."""

    @abstractmethod
    def advance(self, t: int) -> None:
        """Take the action of step ``t``; the next observation is there then."""

    @abstractmethod
    def end(self) -> None:
        """Leave the robots as the window left them; nobody has started anew."""

    def begin_reverse(self) -> None:
        """Forget the derivatives of the window before: nothing comes after the last step. Write ``seed`` before."""
        self.observation_gradient[:, self.steps].zero_()
        self.bound[:] = self.seed.abs().max() * self.steepest

    @abstractmethod
    def reverse(self, t: int) -> None:
        """Go back over step ``t``: from the gradients after it and of the next observation to the action's."""

    def not_finite(self) -> str:
        """Return in words what, on the way back, was the first whose gradient is not finite."""
        for t in reversed(range(self.steps)):
            when = f"at step {t + 1} of the window's {self.steps}"
            if not torch.isfinite(self.at(self.action_gradient, t)).all():
                return f"the action {when}"
            finite = torch.isfinite(self.at(self.observation_gradient, t)).all(dim=1)
            for term in self.environment.pipeline.table():
                if not finite[term.start : term.start + term.size].all():
                    return f"the observation term '{term.name}' {when}"
        return "the network's weights"

    def array(self, rows: int, slots: int) -> Tensor:
        """Return zeros (rows, slots, >= N) that lie well for the processor."""
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
