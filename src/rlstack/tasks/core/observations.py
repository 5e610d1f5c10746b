"""Observation terms for every kind of robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Tensors, Term


class Signal(Term):
    """An input, or its difference from another one or from a constant, multiplied by a constant.

    Args:
        name: Name of the term.
        size: Number of elements.
        unit: SI, or a dash.
        meaning: One line for the table.
        scale: Factor that brings the columns to a magnitude of about 1.
        signal: Name of the input; empty: the term's.
        minus: Name of the input to subtract; empty: none.
        centre: (size,) constant to subtract; None: none.
    """

    def __init__(
        self,
        name: str,
        size: int,
        unit: str,
        meaning: str,
        scale: float = 1.0,
        *,
        signal: str = "",
        minus: str = "",
        centre: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.name, self.size, self.unit, self.meaning, self.scale = name, size, unit, meaning, scale
        self.signal, self.minus = signal or name, minus
        self.register_buffer("centre", None if centre is None else torch.tensor(centre, dtype=torch.float32))

    centre: Tensor | None

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, size)."""
        value = inputs[self.signal]
        if self.minus:
            value = value - inputs[self.minus]
        if self.centre is not None:
            value = value - self.centre
        return value if self.scale == 1.0 else value * self.scale


class UpDirection(Term):
    """The world's up direction in the body frame: tilt without heading."""

    size, unit, meaning = 3, "-", "world up in base_link"

    def __init__(self, name: str = "up") -> None:
        super().__init__()
        self.name = name

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3) of length 1."""
        return inputs["rotation"][:, 2]


class ActionHistory(Term):
    """The last actions, newest first.

    Args:
        actions: Number of actions of one step.
        length: Number of steps.
        name: Name of the term.
        memory: Name of its memory in the policy file.
    """

    unit, meaning = "-1..1", "past actions, newest first"

    def __init__(
        self, actions: int, length: int = 1, name: str = "action_history", memory: str = "action_history"
    ) -> None:
        super().__init__()
        self.name, self.size, self.actions, self._key = name, actions * length, actions, memory
        self.memory: Mapping[str, tuple[int, ...]] = {memory: (self.size,)}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, actions * length)."""
        return memory[self._key]

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Push the newest action to the front."""
        return {self._key: torch.cat([action, memory[self._key][:, : self.size - self.actions]], dim=-1)}
