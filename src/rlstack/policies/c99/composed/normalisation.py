"""Normalisations and other formulas of reductions and arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.policies.c99.composed.composition import Builder
from rlstack.policies.c99.operators.operator import Inputs, numbers, required
from rlstack.policies.c99.program import View


def _standardised(build: Builder, x: View, axes: Sequence[int], epsilon: float) -> View:
    """Return ``(x - mean) / sqrt(variance + epsilon)`` along axes."""
    apart = build.step("Sub", x, build.step("ReduceMean", x, axes=list(axes), keepdims=1))
    variance = build.step("ReduceMean", build.step("Mul", apart, apart), axes=list(axes), keepdims=1)
    return build.step("Div", apart, _root(build, variance, epsilon))


def _root(build: Builder, x: View, epsilon: float) -> View:
    return build.step("Sqrt", build.step("Add", x, build.constant(np.array(epsilon, np.float32))))


def _by_channel(view: View, rank: int) -> View:
    return View(view.buffer, view.index.reshape(-1, *(1,) * (rank - 2)))


def _instance(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, scale, shift = (required(inputs, place) for place in range(3))
    rank = len(x.shape)
    found = _standardised(build, x, range(2, rank), attributes.get("epsilon", 1e-5))
    return [build.step("Add", build.step("Mul", found, _by_channel(scale, rank)), _by_channel(shift, rank))]


def _length(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, axis = required(inputs, 0), attributes.get("axis", -1)
    norm = build.step("ReduceL1" if attributes.get("p", 2) == 1 else "ReduceL2", x, axes=[axis], keepdims=1)
    empty = build.step("Equal", norm, build.constant(np.array(0.0, np.float32)))
    one = build.constant(np.array(1.0, np.float32))
    return [build.step("Div", x, build.step("Where", empty, one, norm))]


def _logarithm(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    return [build.step("Log", build.step("ReduceSum", *inputs, **attributes))]


def _logarithm_of_exponentials(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, rest = required(inputs, 0), inputs[1:]
    greatest = build.step("ReduceMax", x, *rest, **{**attributes, "keepdims": 1})
    infinite = build.step("IsInf", greatest)  # infinity less itself is no number
    greatest = build.step("Where", infinite, build.constant(np.array(0.0, np.float32)), greatest)
    total = build.step("ReduceSum", build.step("Exp", build.step("Sub", x, greatest)), *rest, **attributes)
    after = View(greatest.buffer, greatest.index.reshape(total.shape))
    return [build.step("Add", build.step("Log", total), after)]


def _top(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    counts = numbers(inputs, 1) or [attributes.get("k", 0)]
    axis, largest = attributes.get("axis", -1), attributes.get("largest", 1)
    places = build.step("TopPlaces", required(inputs, 0), axis=axis, count=counts[0], largest=largest)
    return [build.step("GatherElements", required(inputs, 0), places, axis=axis), places]


COMPOSED = {
    "InstanceNormalization": _instance,
    "LpNormalization": _length,
    "ReduceLogSum": _logarithm,
    "ReduceLogSumExp": _logarithm_of_exponentials,
    "TopK": _top,
}
