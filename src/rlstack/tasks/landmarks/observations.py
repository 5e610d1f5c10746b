"""Observation terms of mobile robots among landmarks."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.tasks.core.pipeline import Tensors, Term


class TurnedSinceSentence(Term):
    """How far the robot has turned since the sentence came, so that left and right keep their meaning on the way.

    Needs the signals ``orientation`` and ``instruction``; another sentence begins anew.
    """

    name, size, unit, meaning = "turned", 2, "-", "cos and sin of the yaw since this sentence came"
    memory: Mapping[str, tuple[int, ...]] = {"first_heading": (3,), "sentence": (INSTRUCTION_BYTES,)}

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return cos and sin of the yaw now and when the sentence came, the latter with a 1."""
        ahead, before = inputs["rotation"][:, :2, 0], memory["first_heading"]
        ahead = ahead / torch.sqrt((ahead * ahead).sum(dim=1, keepdim=True) + 1e-12)
        changed = (inputs["instruction"] - memory["sentence"]).abs().sum(dim=1, keepdim=True)
        same = before[:, 2:] * torch.relu(1.0 - changed)
        now = torch.cat([ahead, torch.ones_like(same)], dim=1)
        return {"heading": ahead, "first_heading": same * before + (1.0 - same) * now}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        (x, y), (first_x, first_y, _) = inputs["heading"].unbind(dim=1), inputs["first_heading"].unbind(dim=1)
        return torch.stack([first_x * x + first_y * y, first_x * y - first_y * x], dim=1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Store the heading when the sentence came, and the sentence."""
        return {"first_heading": inputs["first_heading"], "sentence": inputs["instruction"]}
