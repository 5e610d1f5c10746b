"""Gradients of several processes: each learns from a batch of its own, and all make the same updates, by the mean.

Weights and optimisers are then the same in all processes, so that one's state is the whole run's. Gradients go through
torch.distributed's Gloo, on this machine alone; those of a GPU are copied to and from it, since networks are small.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed
from torch import Tensor

_PATIENCE = timedelta(minutes=10)
"""How long a process waits for the others' gradients."""


class Averaged(Protocol):
    """Means over processes that make the same updates, each with a batch of its own."""

    def mean(self, one: Tensor) -> Tensor:
        """Return the mean of a tensor."""

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means."""


class Group(Averaged):
    """Means over the processes of a group.

    Args:
        store: File in which they find each other.
        rank: Number of this process.
        size: Number of processes.
    """

    def __init__(self, store: Path, rank: int, size: int) -> None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self._size = size
        shared = torch.distributed.FileStore(str(store), size)
        self._group: Any = torch.distributed.ProcessGroupGloo(shared, rank, size, _PATIENCE)

    def mean(self, one: Tensor) -> Tensor:
        """Return the mean of a tensor over the processes; raise ``RuntimeError`` if one of them is gone."""
        found = one.detach().to("cpu", copy=True)
        self._group.allreduce([found]).wait()
        return (found / self._size).to(one.device)

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means over the processes, in one exchange."""
        flat = self.mean(torch.cat([one.flatten() for one in tensors]))
        for one, mean in zip(tensors, flat.split([one.numel() for one in tensors])):
            one.copy_(mean.reshape(one.shape))
