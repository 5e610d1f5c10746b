"""Operators that reduce axes to one number, or normalise along them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlstack.policies.c99.operators.operator import Inputs, Operator, Shape, Unsupported, numbers, required
from rlstack.policies.c99.program import FLOAT, INTEGER, Step, View
from rlstack.policies.c99.writer import Writer, element, literal, plus

_REDUCTIONS = {
    "ReduceL1": ("0.0f", "{0} + fabsf({1})", "{0}"),
    "ReduceL2": ("0.0f", "{0} + {1} * {1}", "sqrtf({0})"),
    "ReduceMax": ("-INFINITY", "maximum({0}, {1})", "{0}"),
    "ReduceMean": ("0.0f", "{0} + {1}", "{0} / {count}"),
    "ReduceMin": ("INFINITY", "minimum({0}, {1})", "{0}"),
    "ReduceProd": ("1.0f", "{0} * {1}", "{0}"),
    "ReduceSum": ("0.0f", "{0} + {1}", "{0}"),
    "ReduceSumSquare": ("0.0f", "{0} + {1} * {1}", "{0}"),
}
"""Start, how one element is added, and the end."""


def _axes(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[int, ...]:
    rank = len(required(inputs, 0).shape)
    given = attributes.get("axes", numbers(inputs, 1))
    if not given:
        return () if attributes.get("noop_with_empty_axes") else tuple(range(rank))
    return tuple(sorted(axis % rank for axis in given))


def _output(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    data, axes = required(inputs, 0), _axes(inputs, attributes)
    if data.kind != FLOAT:
        raise Unsupported("on integers")
    kept = attributes.get("keepdims", 1)
    sizes = [1 if axis in axes else size for axis, size in enumerate(data.shape) if kept or axis not in axes]
    return tuple(sizes), FLOAT


def _first(view: View, axes: tuple[int, ...]) -> View:
    """Return a tensor with only the first element along ``axes``."""
    cut = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(view.index.ndim))
    return View(view.buffer, view.index[cut])


def _along(view: View, axes: tuple[int, ...]) -> list[int]:
    """Return the strides of ``axes``."""
    return [view.strides[axis] for axis in axes]


def _sizes(step: Step, axes: tuple[int, ...]) -> list[int]:
    return [step.input(0).shape[axis] for axis in axes]


def _emit(writer: Writer, step: Step) -> None:
    start, add, end = _REDUCTIONS[step.operator]
    data, axes = step.input(0), _axes(step.inputs, step.attributes)
    first, sizes, strides = _first(data, axes), _sizes(step, axes), _along(data, axes)
    out = View(step.output.buffer, step.output.index.reshape(first.shape))
    with writer.loops(out.shape, out.strides, first.strides) as (to, outer), writer.block():
        writer.line(f"float total = {start};")
        with writer.loops(sizes, strides) as (inner,):
            writer.line(f"total = {add.format('total', element(first, plus(outer, inner)))};")
        writer.line(f"{element(out, to)} = {end.format('total', count=literal(math.prod(sizes), FLOAT))};")


def _row_axes(step: Step) -> tuple[int, ...]:
    """Return the axes that an operator normalises along."""
    rank = len(step.input(0).shape)
    axis = step.attributes.get("axis", -1) % rank
    return tuple(range(axis, rank)) if step.operator == "LayerNormalization" else (axis,)


def _emit_softmax(writer: Writer, step: Step) -> None:
    logarithm = step.operator == "LogSoftmax"
    axes = _row_axes(step)
    data, sizes = step.input(0), _sizes(step, axes)
    first, out = _first(data, axes), _first(step.output, axes)
    strides, steps_out = _along(data, axes), _along(step.output, axes)
    with writer.loops(first.shape, out.strides, first.strides) as (to, outer), writer.block():
        writer.line("float greatest = -INFINITY;")
        writer.line("float total = 0.0f;")
        with writer.loops(sizes, strides) as (inner,):
            writer.line(f"greatest = maximum(greatest, {element(first, plus(outer, inner))});")
        with writer.loops(sizes, strides) as (inner,):
            writer.line(f"total += expf({element(first, plus(outer, inner))} - greatest);")
        with writer.loops(sizes, strides, steps_out) as (inner, target):
            value = f"{element(first, plus(outer, inner))} - greatest"
            result = f"{value} - logf(total)" if logarithm else f"expf({value}) / total"
            writer.line(f"{element(out, plus(to, target))} = {result};")


def _emit_layer_normalisation(writer: Writer, step: Step) -> None:
    axes = _row_axes(step)
    data, sizes = step.input(0), _sizes(step, axes)
    first, out = _first(data, axes), _first(step.output, axes)
    strides, steps_out = _along(data, axes), _along(step.output, axes)
    weights = [view.broadcast(sizes) for view in step.inputs[1:] if view is not None]
    with writer.loops(first.shape, out.strides, first.strides) as (to, outer), writer.block():
        writer.line("float mean = 0.0f;")
        writer.line("float variance = 0.0f;")
        with writer.loops(sizes, strides) as (inner,):
            writer.line(f"mean += {element(first, plus(outer, inner))};")
        writer.line(f"mean /= {literal(math.prod(sizes), FLOAT)};")
        with writer.loops(sizes, strides) as (inner,):
            apart = f"({element(first, plus(outer, inner))} - mean)"
            writer.line(f"variance += {apart} * {apart};")
        epsilon = literal(step.attributes.get("epsilon", 1e-5), FLOAT)
        writer.line(f"variance = sqrtf(variance / {literal(math.prod(sizes), FLOAT)} + {epsilon});")
        with writer.loops(sizes, strides, steps_out, *(view.strides for view in weights)) as (inner, target, *places):
            scale = element(weights[0], places[0])
            shift = f" + ({element(weights[1], places[1])})" if len(weights) > 1 else ""
            value = f"({element(first, plus(outer, inner))} - mean) / variance * {scale}{shift}"
            writer.line(f"{element(out, plus(to, target))} = {value};")


def _same_floats(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    if required(inputs, 0).kind != FLOAT:
        raise Unsupported("on integers")
    return required(inputs, 0).shape, FLOAT


def _extreme_output(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    data = required(inputs, 0)
    axis = attributes.get("axis", 0) % len(data.shape)
    if attributes.get("select_last_index") or data.kind != FLOAT:
        raise Unsupported("on integers, or with select_last_index")
    kept = attributes.get("keepdims", 1)
    return tuple(1 if a == axis else n for a, n in enumerate(data.shape) if kept or a != axis), INTEGER


def _emit_extreme(writer: Writer, step: Step) -> None:
    axis = step.attributes.get("axis", 0) % len(step.input(0).shape)
    data = step.input(0)
    first, count, stride = _first(data, (axis,)), data.shape[axis], data.strides[axis]
    out = View(step.output.buffer, step.output.index.reshape(first.shape))
    sign = ">" if step.operator == "ArgMax" else "<"
    with writer.loops(out.shape, out.strides, first.strides) as (to, outer), writer.block():
        writer.line("int32_t best = 0;")
        with writer.loop(count) as counter:
            here = element(first, plus(outer, f"{stride} * {counter}"))
            with writer.block(f"if ({here} {sign} {element(first, plus(outer, f'{stride} * best'))})"):
                writer.line(f"best = {counter};")
        writer.line(f"{element(out, to)} = best;")


OPERATORS: dict[str, Operator] = {
    **{name: Operator(_output, _emit) for name in _REDUCTIONS},
    **{name: Operator(_same_floats, _emit_softmax) for name in ("Softmax", "LogSoftmax")},
    **{name: Operator(_extreme_output, _emit_extreme) for name in ("ArgMax", "ArgMin")},
    "LayerNormalization": Operator(_same_floats, _emit_layer_normalisation),
}
