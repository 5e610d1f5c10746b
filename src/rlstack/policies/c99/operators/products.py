"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.policies.c99.operators.operator import Inputs, Operator, Shape, Unsupported, required
from rlstack.policies.c99.program import FLOAT, Step, View
from rlstack.policies.c99.writer import Writer, element, literal, plus, times


def _transposed(view: View, wanted: bool) -> View:
    return View(view.buffer, view.index.T) if wanted else view


def _gemm_output(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    one, other = required(inputs, 0), required(inputs, 1)
    rows = one.shape[1 if attributes.get("transA") else 0]
    return (rows, other.shape[0 if attributes.get("transB") else 1]), FLOAT


def _emit_gemm(writer: Writer, step: Step) -> None:
    left = _transposed(step.input(0), bool(step.attributes.get("transA")))
    right = _transposed(step.input(1), bool(step.attributes.get("transB")))
    shift = step.optional(2)
    alpha, beta = step.attributes.get("alpha", 1.0), step.attributes.get("beta", 1.0)
    _product(writer, left, right, step.output, shift, alpha, beta)


def _product(
    writer: Writer,
    left: View,
    right: View,
    out: View,
    shift: View | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> None:
    """Write ``out = alpha * left * right + beta * shift``; leading axes are those of a batch."""
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    lefts = np.broadcast_to(left.index[..., 0], out.shape[:-1])[..., None]
    rights = np.broadcast_to(right.index[..., :1, :], (*out.shape[:-2], 1, columns))
    start_left = View(left.buffer, np.broadcast_to(lefts, (*out.shape[:-2], rows, columns)))
    start_right = View(right.buffer, np.broadcast_to(rights, out.shape))
    shifts = [] if shift is None else [shift.broadcast(out.shape)]
    views = [out, start_left, start_right, *shifts]
    with writer.loops(out.shape, *(view.strides for view in views)) as (to, row, column, *added), writer.block():
        writer.line("float total = 0.0f;")
        with writer.loop(inner) as k:
            one = element(start_left, plus(row, times(left.strides[-1], k)))
            other = element(start_right, plus(column, times(right.strides[-2], k)))
            writer.line(f"total += {one} * ({other});" if other.startswith("-") else f"total += {one} * {other};")
        result = "total" if alpha == 1.0 else f"{literal(alpha, FLOAT)} * total"
        if shifts:
            extra = element(shifts[0], added[0])
            result += f" + ({extra})" if beta == 1.0 else f" + {literal(beta, FLOAT)} * ({extra})"
        writer.line(f"{element(out, to)} = {result};")


def _matrices(inputs: Inputs) -> tuple[View, View]:
    """Return the operands of a product as matrices: a vector is a row on the left and a column on the right."""
    one, other = required(inputs, 0), required(inputs, 1)
    if FLOAT not in (one.kind, other.kind):
        raise Unsupported("on integers")
    left = View(one.buffer, one.index[None, :]) if one.index.ndim == 1 else one
    right = View(other.buffer, other.index[:, None]) if other.index.ndim == 1 else other
    return left, right


def _matmul_shape(left: View, right: View) -> Shape:
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return (*batch, left.shape[-2], right.shape[-1])


def _matmul_output(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    left, right = _matrices(inputs)
    shape = list(_matmul_shape(left, right))
    if required(inputs, 1).index.ndim == 1:
        shape.pop()
    if required(inputs, 0).index.ndim == 1:
        shape.pop(-1 if required(inputs, 1).index.ndim == 1 else -2)
    return tuple(shape), FLOAT


def _emit_matmul(writer: Writer, step: Step) -> None:
    left, right = _matrices(step.inputs)
    out = View(step.output.buffer, step.output.index.reshape(_matmul_shape(left, right)))
    _product(writer, left, right, out)


def _gemm_products(step: Step) -> int:
    return step.output.size * step.input(0).shape[0 if step.attributes.get("transA") else 1]


def _matmul_products(step: Step) -> int:
    return step.output.size * step.input(0).shape[-1]


OPERATORS: dict[str, Operator] = {
    "Gemm": Operator(_gemm_output, _emit_gemm, _gemm_products),
    "MatMul": Operator(_matmul_output, _emit_matmul, _matmul_products),
}
