"""Operators that only rearrange elements: they become other views of the same buffer, and no code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.policies.c99.operators.operator import Inputs, numbers, required

Index = NDArray[np.int64]


def _reshape(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    wanted = numbers(inputs, 1) or []
    if not attributes.get("allowzero"):
        wanted = [index.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return [index.reshape(wanted)]


def _axes(inputs: Inputs, attributes: Mapping[str, Any]) -> list[int] | None:
    found = attributes.get("axes", numbers(inputs, 1))
    return None if found is None else list(found)


def _squeeze(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    axes = _axes(inputs, attributes)
    return [index.squeeze() if axes is None else index.squeeze(tuple(axes))]


def _unsqueeze(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    return [np.expand_dims(index, tuple(_axes(inputs, attributes) or ()))]


def _flatten(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    axis = attributes.get("axis", 1)
    return [index.reshape(int(np.prod(index.shape[:axis], dtype=int)), -1)]


def _transpose(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    return [index.transpose(attributes.get("perm"))]


def _expand(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    shape = np.broadcast_shapes(index.shape, tuple(numbers(inputs, 1) or ()))
    return [np.broadcast_to(index, shape)]


def _slice(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    starts = attributes.get("starts", numbers(inputs, 1))
    ends = attributes.get("ends", numbers(inputs, 2))
    axes = attributes.get("axes", numbers(inputs, 3)) or range(len(starts))
    steps = numbers(inputs, 4) or [1] * len(starts)
    cut = [slice(None)] * index.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        beyond = step < 0 and end < -index.shape[axis]
        cut[axis] = slice(start, None if beyond else end, step)
    return [index[tuple(cut)]]


def _split(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    axis = attributes.get("axis", 0)
    sizes = attributes.get("split", numbers(inputs, 1))
    if sizes is None:  # equal parts, the last may be smaller
        size = -(-index.shape[axis] // outputs)
        sizes = [size] * (outputs - 1)
    return np.split(index, np.cumsum(sizes)[: outputs - 1], axis=axis)


def _gather(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index] | None:
    chosen = required(inputs, 1)
    if chosen.constant is None:
        return None
    axis = attributes.get("axis", 0) % index.ndim
    flat = [int(place) % index.shape[axis] for place in chosen.constant.reshape(-1)]
    before = (slice(None),) * axis
    if not chosen.shape:
        return [index[(*before, flat[0], ...)]]
    apart = {after - one for one, after in itertools.pairwise(flat)} or {1}
    if len(chosen.shape) != 1 or len(apart) != 1 or (step := apart.pop()) == 0:
        return None
    end = flat[-1] + (1 if step > 0 else -1)
    return [index[(*before, slice(flat[0], end if end >= 0 else None, step))]]


def _identity(index: Index, inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Sequence[Index]:
    return [index] * outputs


LAYOUT: dict[str, Callable[[Index, Inputs, Mapping[str, Any], int], Sequence[Index] | None]] = {
    "Dropout": _identity,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _identity,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""Each maps the index of its input to those of its outputs, by numpy's own rules; None: it has to compute."""
