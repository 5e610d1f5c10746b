"""Formulas through the compiled kernel, as simulators run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlstack.fused import Kernel

BOTH = pytest.mark.parametrize("dtype", ["float32", "float64"])
"""For tests of the compiled formula: what the batch simulator computes, and what the engines' kernel does."""


def compiled(function: Callable[..., Any], dtype: str, **given: Any) -> NDArray[Any]:
    """Return ``function`` of one robot's rows, compiled, for N robots' rows (k, N); rows (k,) are for all of them."""
    count = max(np.atleast_2d(rows).shape[1] for rows in given.values() if np.ndim(rows) == 2)
    arrays = {}
    for name, rows in given.items():
        rows = np.asarray(rows, dtype=float)
        wide = np.broadcast_to(rows if rows.ndim == 2 else rows[:, None], (len(rows), count))
        arrays[name] = wide.astype(dtype, order="C")
    kernel = Kernel(lambda **rows: {"y": function(**rows)}, {n: len(a) for n, a in arrays.items()}, dtype=dtype)
    y = np.zeros((kernel.outputs["y"], count), dtype)
    kernel({**arrays, "y": y})
    return y


def tolerance(dtype: str) -> float:
    """Return what may be lost to rounding in a formula of a few operations."""
    return 1e-5 if dtype == "float32" else 1e-12
