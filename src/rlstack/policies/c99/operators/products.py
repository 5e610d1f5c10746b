"""Matrix products, and sums of products over any axes: convolutions and Einsum are such sums on views."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.policies.c99.operators.operator import Inputs, Operator, Shape, Unsupported, required
from rlstack.policies.c99.program import FLOAT, Step, View
from rlstack.policies.c99.writer import Writer, element, literal, plus


def contract(
    writer: Writer,
    out: View,
    left: View,
    right: View,
    shift: View | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> None:
    """Write ``out = alpha * sum(left * right) + beta * shift``.

    Args:
        writer: Where to.
        out: Of the shape (\\*kept).
        left: Of a shape that broadcasts with that of ``right`` to (\\*kept, \\*summed).
        right: Likewise.
        shift: Broadcasts to (\\*kept).
        alpha: Factor of the products.
        beta: Factor of ``shift``.
    """
    shape = np.broadcast_shapes(left.shape, right.shape)
    kept = len(out.shape)
    left, right = left.broadcast(shape), right.broadcast(shape)
    shifts = [] if shift is None else [shift.broadcast(out.shape)]
    starts = [out.strides, left.strides[:kept], right.strides[:kept], *(view.strides for view in shifts)]
    with writer.loops(out.shape, *starts) as (to, row, column, *added), writer.block():
        writer.line("float total = 0.0f;")
        with writer.loops(shape[kept:], left.strides[kept:], right.strides[kept:]) as (along, down):
            one, other = element(left, plus(row, along)), element(right, plus(column, down))
            writer.line(f"total += {one} * ({other});" if other.startswith("-") else f"total += {one} * {other};")
        result = "total" if alpha == 1.0 else f"{literal(alpha, FLOAT)} * total"
        if shifts:
            extra = element(shifts[0], added[0])
            result += f" + ({extra})" if beta == 1.0 else f" + {literal(beta, FLOAT)} * ({extra})"
        writer.line(f"{element(out, to)} = {result};")


def _gemm_operands(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[View, View]:
    """Return the operands (rows, 1, inner) and (1, columns, inner)."""
    one, other = required(inputs, 0), required(inputs, 1)
    if FLOAT not in (one.kind, other.kind):
        raise Unsupported("on integers")
    left = one.index.T if attributes.get("transA") else one.index
    right = other.index if attributes.get("transB") else other.index.T
    return View(one.buffer, left[:, None, :]), View(other.buffer, right[None, :, :])


def _gemm_output(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    left, right = _gemm_operands(inputs, attributes)
    return (left.shape[0], right.shape[1]), FLOAT


def _emit_gemm(writer: Writer, step: Step) -> None:
    left, right = _gemm_operands(step.inputs, step.attributes)
    alpha, beta = step.attributes.get("alpha", 1.0), step.attributes.get("beta", 1.0)
    contract(writer, step.output, left, right, step.optional(2), alpha, beta)


def _matmul_operands(inputs: Inputs) -> tuple[View, View]:
    """Return the operands (\\*batch, rows, 1, inner) and (\\*batch, 1, columns, inner).

    A vector is a row on the left and a column on the right.
    """
    one, other = required(inputs, 0), required(inputs, 1)
    if FLOAT not in (one.kind, other.kind):
        raise Unsupported("on integers")
    left = one.index[None, :] if one.index.ndim == 1 else one.index
    right = other.index[:, None] if other.index.ndim == 1 else other.index
    return View(one.buffer, left[..., None, :]), View(other.buffer, np.swapaxes(right, -1, -2)[..., None, :, :])


def _matmul_output(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    left, right = _matmul_operands(inputs)
    *batch, rows, columns, _ = np.broadcast_shapes(left.shape, right.shape)
    ends = [size for place, size in enumerate((rows, columns)) if required(inputs, place).index.ndim > 1]
    return (*batch, *ends), FLOAT


def _emit_matmul(writer: Writer, step: Step) -> None:
    left, right = _matmul_operands(step.inputs)
    shape = np.broadcast_shapes(left.shape, right.shape)[:-1]
    contract(writer, View(step.output.buffer, step.output.index.reshape(shape)), left, right)


def _contracted(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    left, right = required(inputs, 0), required(inputs, 1)
    if FLOAT not in (left.kind, right.kind):
        raise Unsupported("on integers")
    return tuple(np.broadcast_shapes(left.shape, right.shape)[: attributes["kept"]]), FLOAT


def _emit_contract(writer: Writer, step: Step) -> None:
    contract(writer, step.output, step.input(0), step.input(1), step.optional(2))


def _inner(step: Step) -> int:
    return step.output.size * step.input(0).shape[0 if step.attributes.get("transA") else -1]


def _contractions(step: Step) -> int:
    return math.prod(np.broadcast_shapes(step.input(0).shape, step.input(1).shape))


OPERATORS: dict[str, Operator] = {
    "Contract": Operator(_contracted, _emit_contract, _contractions),
    "Gemm": Operator(_gemm_output, _emit_gemm, _inner),
    "MatMul": Operator(_matmul_output, _emit_matmul, _inner),
}
"""``Contract`` is no operator of ONNX: operators that are written as several others use it."""
