"""Observation terms of any robot with cameras: images, and an instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.tasks.core.pipeline import Tensors, Term


class Instruction(Term):
    """The instruction's bytes, unscaled; the network reads them as text."""

    name, size, unit, meaning = "instruction", INSTRUCTION_BYTES, "bytes", "UTF-8 bytes of the sentence, then 0"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 128)."""
        return inputs["instruction"]


class CameraImages(Term):
    """All images, concatenated and unscaled; the network scales them.

    Args:
        cameras: Their names.
        height: Height of each, pixels.
        width: Width of each, pixels.
    """

    name, unit, meaning = "pictures", "0 to 255", "all cameras' pixels: rows, columns, red, green, blue"

    def __init__(self, cameras: Sequence[str], height: int, width: int) -> None:
        super().__init__()
        self.cameras, self.shape = tuple(cameras), (len(cameras), height, width, 3)
        self.size = math.prod(self.shape)

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, pixels)."""
        return torch.cat([inputs[f"{name}_image"].flatten(start_dim=1) for name in self.cameras], dim=-1)
