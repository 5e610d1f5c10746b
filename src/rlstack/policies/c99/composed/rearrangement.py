"""Operators that pad, repeat or regroup elements, and sums of products over named axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.policies.c99.composed.composition import Builder, only, text
from rlstack.policies.c99.operators.operator import Inputs, Unsupported, numbers, required
from rlstack.policies.c99.program import FLOAT, View


def _pad(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    only(attributes, mode="constant")
    x = required(inputs, 0)
    rank = len(x.shape)
    given = attributes.get("pads", numbers(inputs, 1)) or []
    axes = [axis % rank for axis in numbers(inputs, 3) or range(rank)]
    pads = [(0, 0)] * rank
    for place, axis in enumerate(axes):
        pads[axis] = given[place], given[place + len(axes)]
    cut = tuple(slice(max(-before, 0), n + min(after, 0)) for n, (before, after) in zip(x.shape, pads))
    value = inputs[2] if len(inputs) > 2 else None
    if value is None:
        if x.kind != FLOAT:
            raise Unsupported("on integers without a value")
        value = build.constant(np.array(attributes.get("value", 0.0), np.float32))
    value = View(value.buffer, value.index.reshape(()))
    grown = [(max(before, 0), max(after, 0)) for before, after in pads]
    return [build.step("Border", View(x.buffer, x.index[cut]), value, pads=grown)]


def _tile(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, repeats = required(inputs, 0), numbers(inputs, 1) or []
    apart = x.index.reshape([size for n in x.shape for size in (1, n)])
    spread = np.broadcast_to(apart, [size for n, count in zip(x.shape, repeats) for size in (count, n)])
    found = build.step("Copy", View(x.buffer, spread))
    return [View(found.buffer, found.index.reshape([n * count for n, count in zip(x.shape, repeats)]))]


def _depth_to_space(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, size = required(inputs, 0), attributes["blocksize"]
    n, channels, rows, columns = x.shape
    depth = channels // size**2
    if text(attributes.get("mode", "DCR")) == "DCR":
        order = x.index.reshape(n, size, size, depth, rows, columns).transpose(0, 3, 4, 1, 5, 2)
    else:
        order = x.index.reshape(n, depth, size, size, rows, columns).transpose(0, 1, 4, 2, 5, 3)
    found = build.step("Copy", View(x.buffer, order))
    return [View(found.buffer, found.index.reshape(n, depth, rows * size, columns * size))]


def _space_to_depth(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, size = required(inputs, 0), attributes["blocksize"]
    n, channels, rows, columns = x.shape
    order = x.index.reshape(n, channels, rows // size, size, columns // size, size).transpose(0, 3, 5, 1, 2, 4)
    found = build.step("Copy", View(x.buffer, order))
    return [View(found.buffer, found.index.reshape(n, channels * size**2, rows // size, columns // size))]


def _triangle(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    x, shifts = required(inputs, 0), numbers(inputs, 1) or [0]
    if x.kind != FLOAT:
        raise Unsupported("on integers")
    whole = np.ones(x.shape[-2:], bool)
    kept = np.triu(whole, shifts[0]) if attributes.get("upper", 1) else np.tril(whole, shifts[0])
    return [build.step("Where", build.constant(kept), x, build.constant(np.array(0.0, np.float32)))]


def _einsum(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
    equation = text(attributes["equation"]).replace(" ", "")
    before, arrow, after = equation.partition("->")
    terms = before.split(",")
    if "." in equation or len(terms) > 2 or any(len(set(term)) != len(term) for term in terms):
        raise Unsupported(f"of '{equation}', with an ellipsis, a diagonal or more than two operands")
    if not arrow:
        after = "".join(sorted(name for name in set(before) - {","} if before.count(name) == 1))
    names = after + "".join(sorted(set(before) - {",", *after}))
    views = [_named(required(inputs, place), term, names) for place, term in enumerate(terms)]
    if len(views) == 1:
        views.append(build.constant(np.ones((1,) * len(names), np.float32)))
    return [build.step("Contract", *views, kept=len(after))]


def _named(view: View, term: str, names: str) -> View:
    """Return a tensor with an axis for every name, of length 1 where it has none."""
    order = [term.index(name) for name in names if name in term]
    places = tuple(slice(None) if name in term else None for name in names)
    return View(view.buffer, view.index.transpose(order)[places])


COMPOSED = {
    "DepthToSpace": _depth_to_space,
    "Einsum": _einsum,
    "Pad": _pad,
    "SpaceToDepth": _space_to_depth,
    "Tile": _tile,
    "Trilu": _triangle,
}
