"""Arrays of rows: one float for each robot along the last axis."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LINE = 16
"""Floats in a cache line."""


def zeros(rows: int, count: int) -> NDArray[np.float32]:
    """Return zeros (rows, count) whose rows begin at different places of the processor's cache.

    With a power of two as the stride all rows would compete for the same few lines; a fused step ran at half the
    speed or less.
    """
    stride = (-(-count // _LINE) | 1) * _LINE  # an odd number of cache lines
    memory = np.zeros(rows * stride + _LINE, dtype=np.float32)
    start = -(memory.__array_interface__["data"][0] // 4) % _LINE
    return memory[start : start + rows * stride].reshape(rows, stride)[:, :count]
