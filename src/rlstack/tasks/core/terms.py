"""Observation terms for every kind of robot."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Tensors, Term


class Signal(Term):
    """An input, multiplied by a constant.

    Args:
        name: Name of the input and of the term.
        size: Number of elements.
        unit: SI, or a dash.
        meaning: One line for the table.
        scale: Factor that brings the columns to a magnitude of about 1.
    """

    def __init__(self, name: str, size: int, unit: str, meaning: str, scale: float = 1.0) -> None:
        super().__init__()
        self.name, self.size, self.unit, self.meaning, self.scale = name, size, unit, meaning, scale

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, size)."""
        return inputs[self.name] * self.scale


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
