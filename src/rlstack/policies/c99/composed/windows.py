"""Convolutions and pooling: a window that moves over a tensor is a view of it with more axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rlstack.policies.c99.composed.composition import Builder, Pads, only, padded, text
from rlstack.policies.c99.operators.operator import Inputs, required
from rlstack.policies.c99.program import View


class _Window:
    """Size, strides, dilations and padding of an operator on (n, channels, \\*space)."""

    def __init__(self, space: Sequence[int], sizes: Sequence[int], attributes: Mapping[str, Any]) -> None:
        rank = len(space)
        self._space, self._sizes = space, list(sizes)
        self._strides = list(attributes.get("strides", [1] * rank))
        self._dilations = list(attributes.get("dilations", [1] * rank))
        self._reach = [dilation * (size - 1) + 1 for size, dilation in zip(self._sizes, self._dilations)]
        self._pads = self._padding(attributes)
        self._beyond = self._rounded() if attributes.get("ceil_mode") else [0] * rank
        """Elements after the end, that rounding up adds."""

    def of(self, build: Builder, view: View, fill: float) -> View:
        """Return the windows (n, channels, \\*places, \\*sizes) of a tensor, padded with a number."""
        pads = [(0, 0), (0, 0), *((before, after + more) for (before, after), more in zip(self._pads, self._beyond))]
        whole = padded(build, view, pads, fill)
        return View(whole.buffer, self._cut(whole.index))

    def counts(self, pads_count: bool) -> NDArray[Any]:
        """Return how many elements are in each window: (\\*places)."""
        grown = np.pad(np.ones(tuple(self._space), np.float32), self._pads, constant_values=float(pads_count))
        grown = np.pad(grown, [(0, more) for more in self._beyond])
        rank = len(self._space)
        return self._cut(grown[None, None])[0, 0].sum(axis=tuple(range(rank, 2 * rank)))

    def _cut(self, values: NDArray[Any]) -> NDArray[Any]:
        windows = sliding_window_view(values, self._reach, axis=tuple(range(2, 2 + len(self._reach))))
        steps = [slice(None, None, step) for step in (*self._strides, *self._dilations)]
        return windows[(slice(None), slice(None), *steps)]

    def _padding(self, attributes: Mapping[str, Any]) -> Pads:
        kind, rank = text(attributes.get("auto_pad", "NOTSET")), len(self._space)
        if kind == "VALID":
            return [(0, 0)] * rank
        if kind == "NOTSET":
            pads = attributes.get("pads", [0] * 2 * rank)
            return list(zip(pads[:rank], pads[rank:]))
        found = []
        for size, reach, stride in zip(self._space, self._reach, self._strides):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            less = total // 2
            found.append((less, total - less) if kind == "SAME_UPPER" else (total - less, less))
        return found

    def _rounded(self) -> list[int]:
        found = []
        for size, reach, stride, (before, after) in zip(self._space, self._reach, self._strides, self._pads):
            rest = size + before + after - reach
            count = -(-rest // stride) + 1
            if (count - 1) * stride >= size + before:  # the last window has to begin inside
                count -= 1
            found.append(max((count - 1) * stride - rest, 0))
        return found


def _convolution(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, weights = required(inputs, 0), required(inputs, 1)
    maps, share, *sizes = weights.shape
    groups, rank = attributes.get("group", 1), len(sizes)
    windows = _Window(x.shape[2:], sizes, attributes).of(build, x, 0.0)
    batch, _, *ends = windows.shape
    places = ends[:rank]
    # only splits of axes, which stay views: (n, groups, 1, *places, share, *sizes)
    left = np.moveaxis(windows.index.reshape(batch, groups, share, *ends), 2, 2 + rank)[:, :, None]
    each = (1, groups, maps // groups, *(1,) * rank)
    biases = inputs[2] if len(inputs) > 2 else None
    found = build.step(
        "Contract",
        View(windows.buffer, left),
        View(weights.buffer, weights.index.reshape(*each, share, *sizes)),
        None if biases is None else View(biases.buffer, biases.index.reshape(each)),
        kept=3 + rank,
    )
    return [View(found.buffer, found.index.reshape(batch, maps, *places))]


def _pooled(build: Builder, inputs: Inputs, attributes: Mapping[str, Any], *, greatest: bool) -> View:
    x, sizes = required(inputs, 0), attributes["kernel_shape"]
    window, rank = _Window(x.shape[2:], sizes, attributes), len(sizes)
    axes = list(range(2 + rank, 2 + 2 * rank))
    if greatest:
        return build.step("ReduceMax", window.of(build, x, -math.inf), axes=axes, keepdims=0)
    total = build.step("ReduceSum", window.of(build, x, 0.0), axes=axes, keepdims=0)
    counts = window.counts(bool(attributes.get("count_include_pad")))
    if (counts == counts.flat[0]).all():
        counts = counts.reshape(-1)[:1]
    return build.step("Div", total, build.constant(counts))


def _greatest(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    only(attributes, storage_order=0)
    return [_pooled(build, inputs, attributes, greatest=True), None]


def _average(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    return [_pooled(build, inputs, attributes, greatest=False)]


def _whole(operator: str) -> Any:
    def composed(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
        x = required(inputs, 0)
        return [build.step(operator, x, axes=list(range(2, len(x.shape))), keepdims=1)]

    return composed


COMPOSED = {
    "AveragePool": _average,
    "Conv": _convolution,
    "GlobalAveragePool": _whole("ReduceMean"),
    "GlobalMaxPool": _whole("ReduceMax"),
    "MaxPool": _greatest,
}
