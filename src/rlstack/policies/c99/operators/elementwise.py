"""Operators that work on each element: arithmetic, comparisons, activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx

from rlstack.policies.c99.operators.operator import Inputs, Operator, Shape, Unsupported, required
from rlstack.policies.c99.program import BOOLEAN, FLOAT, INTEGER, Step, View
from rlstack.policies.c99.writer import Writer, element, literal

_Expression = Callable[[Step, list[str]], str]

_UNARY = {
    "Abs": "fabsf({0})",
    "Acos": "acosf({0})",
    "Acosh": "acoshf({0})",
    "Asin": "asinf({0})",
    "Asinh": "asinhf({0})",
    "Atan": "atanf({0})",
    "Atanh": "atanhf({0})",
    "Ceil": "ceilf({0})",
    "Cos": "cosf({0})",
    "Cosh": "coshf({0})",
    "Erf": "erff({0})",
    "Exp": "expf({0})",
    "Floor": "floorf({0})",
    "Log": "logf({0})",
    "Mish": "{0} * tanhf(log1pf(expf({0})))",
    "Neg": "-{0}",
    "Reciprocal": "1.0f / {0}",
    "Relu": "maximum({0}, 0.0f)",
    "Round": "rintf({0})",
    "Sigmoid": "sigmoid({0})",
    "Sign": "{0} != {0} ? {0} : (float)({0} > 0.0f) - (float)({0} < 0.0f)",
    "Sin": "sinf({0})",
    "Sinh": "sinhf({0})",
    "Softplus": "maximum({0}, 0.0f) + log1pf(expf(-fabsf({0})))",
    "Softsign": "{0} / (1.0f + fabsf({0}))",
    "Sqrt": "sqrtf({0})",
    "Tan": "tanf({0})",
    "Tanh": "tanhf({0})",
    "HardSwish": "{0} * minimum(maximum({0} * 0.16666667f + 0.5f, 0.0f), 1.0f)",
}

_WITH_ATTRIBUTES: dict[str, tuple[str, dict[str, float]]] = {
    "Celu": ("maximum({0}, 0.0f) + minimum({alpha} * expm1f({0} / {alpha}), 0.0f)", {"alpha": 1.0}),
    "Elu": ("{0} > 0.0f ? {0} : {alpha} * expm1f({0})", {"alpha": 1.0}),
    "HardSigmoid": ("minimum(maximum({alpha} * {0} + {beta}, 0.0f), 1.0f)", {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": ("{0} > 0.0f ? {0} : {alpha} * {0}", {"alpha": 0.01}),
    "Selu": (
        "{gamma} * ({0} > 0.0f ? {0} : {alpha} * expm1f({0}))",
        {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
    ),
    "ThresholdedRelu": ("{0} > {alpha} ? {0} : 0.0f", {"alpha": 1.0}),
}

_COMPARISONS = {"Equal": "==", "Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<="}
_LOGICAL = {"And": "{0} && {1}", "Or": "{0} || {1}", "Xor": "{0} != {1}", "Not": "!{0}"}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*"}


def _shape(inputs: Inputs) -> Shape:
    return tuple(np.broadcast_shapes(*(view.shape for view in inputs if view is not None)))


def _same(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    kind = required(inputs, 0).kind
    if kind == BOOLEAN:
        raise Unsupported("on truth values")
    return _shape(inputs), kind


def _floats(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    if required(inputs, 0).kind != FLOAT:
        raise Unsupported("on integers")
    return _shape(inputs), FLOAT


def _truths(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    return _shape(inputs), BOOLEAN


def emit(writer: Writer, step: Step, expression: _Expression) -> None:
    """Write a loop over the output with an expression of the inputs' elements."""
    out = step.output
    views = [view.broadcast(out.shape) for view in step.inputs if view is not None]
    with writer.loops(out.shape, out.strides, *(view.strides for view in views)) as (to, *places):
        given = [element(view, place) for view, place in zip(views, places)]
        writer.line(f"{element(out, to)} = {expression(step, given)};")


def _operator(output: Callable[[Inputs, Mapping[str, Any]], tuple[Shape, str]], expression: _Expression) -> Operator:
    return Operator(output, lambda writer, step: emit(writer, step, expression))


def _unary(text: str) -> Operator:
    return _operator(_floats, lambda step, given: text.format(_atom(given[0])))


def _atom(text: str) -> str:
    """Return an operand that may follow a sign."""
    return f"({text})" if text.startswith("-") else text


def _with_attributes(text: str, defaults: Mapping[str, float]) -> Operator:
    def expression(step: Step, given: list[str]) -> str:
        values = {name: literal(step.attributes.get(name, default), FLOAT) for name, default in defaults.items()}
        return text.format(_atom(given[0]), **{name: _atom(value) for name, value in values.items()})

    return _operator(_floats, expression)


def _arithmetic(sign: str) -> _Expression:
    return lambda step, given: f"{given[0]} {sign} {_atom(given[1])}"


def _division(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    divisor = required(inputs, 1)
    if divisor.kind != FLOAT and (divisor.constant is None or (divisor.constant == 0).any()):
        raise Unsupported("of integers by a divisor that may be 0")
    return _same(inputs, attributes)


def _truth(text: str) -> str:
    return f"(unsigned char)({text})"


def _extreme(name: str) -> _Expression:
    def expression(step: Step, given: list[str]) -> str:
        chosen = name if step.output.kind == FLOAT else f"{name}_integer"
        return reduce(lambda one, other: f"{chosen}({one}, {other})", given)

    return expression


def _clip(step: Step, given: list[str]) -> str:
    kind, rest = step.output.kind, iter(given[1:])
    low, high = (next(rest) if step.optional(place) is not None else None for place in (1, 2))
    for name, limit in (("min", low), ("max", high)):  # as attributes before opset 11
        if limit is None and name in step.attributes:
            limit = literal(step.attributes[name], kind)
        low, high = (limit, high) if name == "min" else (low, limit)
    ending = "" if kind == FLOAT else "_integer"
    text = given[0]
    if low is not None:
        text = f"maximum{ending}({text}, {low})"
    return f"minimum{ending}({text}, {high})" if high is not None else text


def _power(step: Step, given: list[str]) -> str:
    exponent = step.input(1).constant
    if exponent is not None and exponent.size == 1 and float(exponent.reshape(-1)[0]) in (2.0, 3.0):
        return " * ".join([given[0]] * int(exponent.reshape(-1)[0]))
    return f"powf({given[0]}, {given[1]})"


def _where(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    return _shape(inputs), required(inputs, 1).kind


def _chosen(step: Step, given: list[str]) -> str:
    text = f"{given[0]} ? {given[1]} : {given[2]}"
    return f"(unsigned char)({text})" if step.output.kind == BOOLEAN else text  # C computes with int


def _mean(step: Step, given: list[str]) -> str:
    return f"({' + '.join(map(_atom, given))}) / {len(given)}.0f"


def _gelu(step: Step, given: list[str]) -> str:
    x = given[0]
    if step.attributes.get("approximate", b"none") in (b"tanh", "tanh"):
        return f"0.5f * {x} * (1.0f + tanhf(0.7978846f * ({x} + 0.044715f * {x} * {x} * {x})))"
    return f"0.5f * {x} * (1.0f + erff({x} * 0.70710677f))"


_CAST = {
    onnx.TensorProto.FLOAT: FLOAT,
    onnx.TensorProto.INT64: INTEGER,
    onnx.TensorProto.INT32: INTEGER,
    onnx.TensorProto.BOOL: BOOLEAN,
}


def _cast_output(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    if attributes["to"] not in _CAST:
        raise Unsupported(f"to {onnx.TensorProto.DataType.Name(attributes['to'])}")
    return required(inputs, 0).shape, _CAST[attributes["to"]]


def _cast(step: Step, given: list[str]) -> str:
    return converted(given[0], step.input(0), step.output.kind)


def converted(text: str, view: View, kind: str) -> str:
    """Return an element of a tensor as another C type."""
    if view.kind == kind:
        return text
    if kind == BOOLEAN:
        return _truth(f"{text} != {literal(0, view.kind)}")
    return f"to_integer({text})" if (view.kind, kind) == (FLOAT, INTEGER) else f"({kind}){text}"


def _is_infinite(step: Step, given: list[str]) -> str:
    signs = [("detect_positive", "> FLT_MAX"), ("detect_negative", "< -FLT_MAX")]
    wanted = [f"{given[0]} {sign}" for name, sign in signs if step.attributes.get(name, 1)]
    return _truth(" || ".join(wanted) or "0")


def _absolute(step: Step, given: list[str]) -> str:
    return f"fabsf({given[0]})" if step.output.kind == FLOAT else f"maximum_integer({given[0]}, -{_atom(given[0])})"


def _comparison(sign: str) -> Operator:
    return _operator(_truths, lambda step, given: _truth(f"{given[0]} {sign} {_atom(given[1])}"))


def _logical(text: str) -> Operator:
    return _operator(_truths, lambda step, given: _truth(text.format(*given)))


def _batch_normalised(step: Step, given: list[str]) -> str:
    x, scale, shift, mean, variance = given
    epsilon = literal(step.attributes.get("epsilon", 1e-5), FLOAT)
    return f"({x} - {_atom(mean)}) * {scale} / sqrtf({variance} + {epsilon}) + {_atom(shift)}"


def _emit_batch_normalisation(writer: Writer, step: Step) -> None:
    data, *channels = (step.input(i) for i in range(5))
    columns = (1, -1, *(1,) * (len(data.shape) - 2))
    shaped = tuple(View(view.buffer, view.index.reshape(columns)) for view in channels)
    emit(
        writer,
        Step(step.operator, step.node, (data, *shaped), step.output, step.attributes),
        _batch_normalised,
    )


def _like_first(inputs: Inputs, attributes: Mapping[str, Any]) -> tuple[Shape, str]:
    if attributes.get("training_mode"):
        raise Unsupported("in training mode")
    return required(inputs, 0).shape, FLOAT


OPERATORS: dict[str, Operator] = {
    **{name: _unary(text) for name, text in _UNARY.items()},
    **{name: _with_attributes(*entry) for name, entry in _WITH_ATTRIBUTES.items()},
    **{name: _operator(_same, _arithmetic(sign)) for name, sign in _ARITHMETIC.items()},
    **{name: _comparison(sign) for name, sign in _COMPARISONS.items()},
    **{name: _logical(text) for name, text in _LOGICAL.items()},
    "Abs": _operator(_same, _absolute),
    "BatchNormalization": Operator(_like_first, _emit_batch_normalisation),
    "Cast": _operator(_cast_output, _cast),
    "Clip": _operator(_same, _clip),
    "Div": _operator(_division, _arithmetic("/")),
    "Gelu": _operator(_floats, _gelu),
    "IsInf": _operator(_truths, _is_infinite),
    "IsNaN": _operator(_truths, lambda step, given: _truth(f"{given[0]} != {given[0]}")),
    "Max": _operator(_same, _extreme("maximum")),
    "Mean": _operator(_floats, _mean),
    "Min": _operator(_same, _extreme("minimum")),
    "Neg": _operator(_same, lambda step, given: f"-{_atom(given[0])}"),
    "PRelu": _operator(_floats, lambda step, given: f"{given[0]} > 0.0f ? {given[0]} : {given[1]} * {given[0]}"),
    "Pow": _operator(_floats, _power),
    "Sum": _operator(_floats, lambda step, given: " + ".join(map(_atom, given))),
    "Where": _operator(_where, _chosen),
}
