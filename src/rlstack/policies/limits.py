"""How large a policy's file and graph may be, and what a step may cost, so that a file from anyone is bounded."""

from __future__ import annotations

import os
from dataclasses import dataclass

LARGE = "RLSTACK_LARGE_POLICIES"
"""Environment variable; 1: the limits of :data:`OF_LARGE` in this process and those that it starts."""


@dataclass(frozen=True)
class Limits:
    """Limits of a file, of its graph, and of one step."""

    file_bytes: int
    nodes: int
    """Nodes and constant tensors of the graph."""
    elements: int
    """Elements of one constant tensor: types of half a byte could make them more than the file's bytes."""
    step_bytes: int
    """Memory of all tensors of one step, for each robot of the batch."""
    operations: int
    """Multiplications of one step, about."""


ORDINARY = Limits(
    file_bytes=64 * 2**20,  # a policy on a robot has kilobytes to a few megabytes
    nodes=5_000,  # rlstack's tasks have up to 700, and onnxruntime takes seconds for these
    elements=2**25,
    step_bytes=256 * 2**20,
    operations=5 * 10**9,  # ResNet-50 has 4e9, which one processor does a few times a second
)
OF_LARGE = Limits(
    file_bytes=2**31 - 1,  # no ONNX file of one part is larger
    nodes=100_000,
    elements=2**29,
    step_bytes=16 * 2**30,
    operations=10**13,
)
"""For published vision-language-action models: a SmolVLA has 25,000 nodes and 1.5 GiB."""


def limits() -> Limits:
    """Return the limits of this process."""
    return OF_LARGE if os.environ.get(LARGE) == "1" else ORDINARY


def hint() -> str:
    """Return what to do about a network beyond the limits that is meant to be so large; empty: nothing."""
    return "" if limits() is OF_LARGE else f" For a large network that you trust, set {LARGE}=1."
