"""Operators that copy elements: into one tensor, or by computed indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.policies.c99.operators.operator import Inputs, Operator, Shape, Unsupported, required
from rlstack.policies.c99.program import FLOAT, INTEGER, Step, View
from rlstack.policies.c99.writer import Writer, element, plus, times


def copy(writer: Writer, view: View, to: View) -> None:
    """Write a copy of a tensor into another of its shape."""
    with writer.loops(view.shape, to.strides, view.strides) as (target, source):
        writer.line(f"{element(to, target)} = {element(view, source)};")


def _copied(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    return required(inputs, 0).shape, required(inputs, 0).kind


def _concatenated(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    parts = [view for view in inputs if view is not None]
    axis = attributes["axis"] % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[axis] = sum(view.shape[axis] for view in parts)
    return tuple(shape), parts[0].kind


def _emit_concat(writer: Writer, step: Step) -> None:
    out, begin = step.output, 0
    axis = step.attributes["axis"] % len(out.shape)
    for view in step.inputs:
        if view is not None and view.size:
            end = begin + view.shape[axis]
            cut = (slice(None),) * axis + (slice(begin, end),)
            copy(writer, view, View(out.buffer, out.index[cut]))
            begin = end


def _gathered(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    data, chosen = required(inputs, 0), required(inputs, 1)
    if chosen.kind != INTEGER:
        raise Unsupported("with indices that are no integers")
    axis = attributes.get("axis", 0) % len(data.shape)
    return (*data.shape[:axis], *chosen.shape, *data.shape[axis + 1 :]), data.kind


def _emit_gather(writer: Writer, step: Step) -> None:
    data, chosen, out = step.input(0), step.input(1), step.output
    axis = step.attributes.get("axis", 0) % len(data.shape)
    first = data.index[(*(slice(None),) * axis, 0, ...)]
    spread = first.reshape(*data.shape[:axis], *(1,) * len(chosen.shape), *data.shape[axis + 1 :])
    by = chosen.index.reshape(*(1,) * axis, *chosen.shape, *(1,) * (len(data.shape) - axis - 1))
    _emit_choice(writer, out, View(data.buffer, spread), View(chosen.buffer, by), data.strides[axis], data.shape[axis])


def _elements(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    data, chosen = required(inputs, 0), required(inputs, 1)
    if chosen.kind != INTEGER:
        raise Unsupported("with indices that are no integers")
    return chosen.shape, data.kind


def _emit_gather_elements(writer: Writer, step: Step) -> None:
    data, chosen, out = step.input(0), step.input(1), step.output
    axis = step.attributes.get("axis", 0) % len(data.shape)
    cut = tuple(slice(0, 1) if a == axis else slice(0, n) for a, n in enumerate(chosen.shape))
    _emit_choice(writer, out, View(data.buffer, data.index[cut]), chosen, data.strides[axis], data.shape[axis])


def _emit_choice(writer: Writer, out: View, first: View, chosen: View, stride: int, count: int) -> None:
    """Write ``out = first[stride * chosen]``, with the index kept within ``count``."""
    views = [out, View(first.buffer, np.broadcast_to(first.index, out.shape)), chosen.broadcast(out.shape)]
    with writer.loops(out.shape, *(view.strides for view in views)) as (to, start, by):
        where = f"{stride} * within({element(views[2], by)}, {count})"
        writer.line(f"{element(out, to)} = {element(views[1], plus(start, where))};")


def _bordered(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    data = required(inputs, 0)
    return tuple(n + before + after for n, (before, after) in zip(data.shape, attributes["pads"])), data.kind


def _emit_border(writer: Writer, step: Step) -> None:
    data, out, fill = step.input(0), step.output, step.input(1)
    copy(writer, fill.broadcast(out.shape), out)
    inside = tuple(slice(before, before + n) for n, (before, _) in zip(data.shape, step.attributes["pads"]))
    copy(writer, data, View(out.buffer, out.index[inside]))


def _top(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    data = required(inputs, 0)
    if data.kind != FLOAT:
        raise Unsupported("on integers")
    axis = attributes["axis"] % len(data.shape)
    if attributes["count"] > data.shape[axis]:
        raise Unsupported("of more elements than there are")
    return (*data.shape[:axis], attributes["count"], *data.shape[axis + 1 :]), INTEGER


def _emit_top(writer: Writer, step: Step) -> None:
    """Write the places of the greatest elements in order; of equal ones the first comes first."""
    data, out = step.input(0), step.output
    axis = step.attributes["axis"] % len(data.shape)
    cut = (slice(None),) * axis + (slice(0, 1),)
    first, start = View(out.buffer, out.index[cut]), View(data.buffer, data.index[cut])
    sign = ">" if step.attributes["largest"] else "<"
    count, stride, to_stride = data.shape[axis], data.strides[axis], out.strides[axis]
    with writer.loops(first.shape, first.strides, start.strides) as (to, outer), writer.block():
        writer.line("int32_t last = -1;")
        with writer.loop(step.attributes["count"]) as place, writer.block():
            writer.line("int32_t best = -1;")
            with writer.loop(count) as k:
                here = element(start, plus(outer, times(stride, k)))
                before, found = (element(start, plus(outer, f"{stride} * {name}")) for name in ("last", "best"))
                writer.line(f"int after = last < 0 || {before} {sign} {here} || ({here} == {before} && {k} > last);")
                with writer.block(f"if (after && (best < 0 || {here} {sign} {found}))"):
                    writer.line(f"best = {k};")
            writer.line("last = best < 0 ? 0 : best;")  # only values that are no numbers leave none
            writer.line(f"{element(first, plus(to, times(to_stride, place)))} = last;")


OPERATORS: dict[str, Operator] = {
    "Border": Operator(_bordered, _emit_border),
    "Copy": Operator(_copied, lambda writer, step: copy(writer, step.input(0), step.output)),
    "Concat": Operator(_concatenated, _emit_concat),
    "Gather": Operator(_gathered, _emit_gather),
    "GatherElements": Operator(_elements, _emit_gather_elements),
    "TopPlaces": Operator(_top, _emit_top),
}
"""``Copy`` is no operator of ONNX: what a layout cannot express is copied. Nor are ``Border`` and ``TopPlaces``, which
operators that are written as several others use."""
