"""Arrays of training environments: device, allocation, noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.fused import check_device, zeros


def learning_device(name: str) -> torch.device:
    """Return the device ``name``.

    Raises:
        UserError: The device is missing, or torch cannot use it.
    """
    device = torch.device(check_device(name))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"This torch was built without CUDA, so it cannot learn on '{name}': use the device cpu.")
    return device


def zero_rows(rows: int, count: int, device: torch.device) -> Tensor:
    """Return zeros (rows, count) in the memory layout of the kernels."""
    return torch.as_tensor(zeros(rows, count, str(device)))


class NoiseTable:
    """Unit normals drawn ahead; a step reads them from a random offset, since drawing takes longer than the step.

    Args:
        generator: Draws the table, on its own device.
        seed: Seeds the offsets.
        size: Least number of values in the table.
        times: Least size as a multiple of what one step reads.
    """

    def __init__(self, generator: torch.Generator, seed: int, size: int, times: int = 2) -> None:
        self._generator, self._size, self._times = generator, size, times
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Reseed the offsets, and redraw the table at its next use."""
        self._offsets = np.random.default_rng(seed)
        self._table = torch.empty(0, device=self._generator.device)

    def fill(self, array: Tensor, slots: int) -> None:
        """Write unit normals into the first ``slots`` of ``array`` (rows, slots, >= N)."""
        rows, _, stride = array.shape
        size = rows * slots * stride
        if self._table.numel() < self._times * size:
            table = torch.empty(max(self._times * size, self._size), device=self._table.device)
            self._table = table.normal_(generator=self._generator)
        start = int(self._offsets.integers(self._table.numel() - size + 1))
        array[:, :slots].copy_(self._table[start : start + size].view(rows, slots, stride))

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state."""
        return {"noise_table": self._table, "offsets": self._offsets.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self._table = state["noise_table"].to(self._table.device)
        self._offsets.bit_generator.state = state["offsets"]
