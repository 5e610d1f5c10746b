"""Bounds on what a graph may cost, found before anything of it runs: the operators, and the size of every tensor.

onnxruntime evaluates constant parts of a graph while it loads, so a file of a few kilobytes could take gigabytes or
hours. Here only shapes are computed, by ONNX's own rules, for the very inputs that are tried afterwards. A tensor whose
size depends on values of the inputs is refused: what is small at rest could be large in flight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import defs, helper, numpy_helper, shape_inference

from rlstack.errors import UserError
from rlstack.policies.graph_checks import STANDARD_DOMAINS, shortened
from rlstack.policies.limits import Limits, hint, limits
from rlstack.policies.operators import ELEMENTWISE, LOGICAL

_MOST_FOLDED = 64
"""Elements of an array whose values are followed: shapes, ranges and scales are shorter."""


@dataclass
class _Value:
    """A tensor's ONNX type, shape and, where it is short and known before any run, content."""

    kind: int
    shape: tuple[int, ...]
    content: NDArray[Any] | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        try:
            size = helper.tensor_dtype_to_np_dtype(self.kind).itemsize
        except KeyError:
            size = 8
        return self.elements * size


@dataclass
class _Walk:
    """A pass over a graph's nodes in their order."""

    where: str
    case: str
    opsets: list[onnx.OperatorSetIdProto]
    known: dict[str, _Value] = field(default_factory=dict)
    bytes: int = 0
    operations: int = 0
    limits: Limits = field(default_factory=limits)


def check_sizes(
    model: onnx.ModelProto, cases: Mapping[str, Mapping[str, tuple[int, ...]]], where: str
) -> list[dict[str, tuple[int, ...]]]:
    """Return the shape of every tensor in each case; raise ``UserError`` where a step would cost too much.

    Args:
        model: A valid graph (:func:`rlstack.policies.graph_checks.check_model`) of allowed operators.
        cases: For each size of batch to try, by its name, the shape of every input, with the batch first.
        where: Its name in errors.

    Returns:
        For each case the shape of every tensor by name.

    Raises:
        UserError: Names the operator and node, and what it would need.
    """
    constants = {t.name: _constant(t) for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            constants[node.output[0]] = _constant(node.attribute[0].t)
        else:
            nodes.append((node, {a.name: helper.get_attribute_value(a) for a in node.attribute}))
    opsets = [o for o in model.opset_import if o.domain in STANDARD_DOMAINS]
    found = []
    for case, shapes in cases.items():
        robots = max(1, min(shape[0] for shape in shapes.values()))
        walk = _Walk(where, case, opsets, dict(constants))
        for name, shape in shapes.items():
            walk.known[name] = _Value(onnx.TensorProto.FLOAT, tuple(shape))
        for node, attributes in nodes:
            _pass(walk, node, attributes, robots)
        found.append({name: value.shape for name, value in walk.known.items()})
    return found


def _pass(walk: _Walk, node: onnx.NodeProto, attributes: Mapping[str, Any], robots: int) -> None:
    inputs = [walk.known[name] for name in node.input if name]
    outputs = _outputs(walk, node, inputs)
    content = _folded(node, attributes, [walk.known[name] if name else None for name in node.input], outputs)
    for name, value in outputs.items():
        walk.known[name] = value
        walk.bytes += value.bytes
    if content is not None:
        walk.known[node.output[0]].content = content
    walk.operations += _operations(node.op_type, attributes, inputs, list(outputs.values()))
    allowed = walk.limits
    if walk.bytes > allowed.step_bytes * robots:
        _refuse(
            walk,
            node,
            f"the tensors of a step for {walk.case} would take more than {allowed.step_bytes * robots / 2**20:g} MiB"
            f" (this one has the shape {[list(v.shape) for v in outputs.values()]})",
        )
    if walk.operations > allowed.operations * robots:
        _refuse(
            walk,
            node,
            f"a step for {walk.case} would take more than {allowed.operations * robots:.0e} operations",
        )


def _outputs(walk: _Walk, node: onnx.NodeProto, inputs: list[_Value]) -> dict[str, _Value]:
    """Return the outputs of a node by name."""
    if node.op_type in ELEMENTWISE | LOGICAL and inputs:
        kind = onnx.TensorProto.BOOL if node.op_type in LOGICAL else inputs[0].kind
        try:
            same = _Value(kind, np.broadcast_shapes(*(v.shape for v in inputs)))
            return {name: replace(same) for name in node.output if name}  # Dropout also gives its mask
        except ValueError as error:
            _fails(walk, node, shortened(error))
    known = {name: walk.known[name] for name in node.input if name}
    try:
        types = {name: helper.make_tensor_type_proto(value.kind, value.shape) for name, value in known.items()}
        data = {n: numpy_helper.from_array(v.content) for n, v in known.items() if v.content is not None}
        schema = defs.get_schema(node.op_type, walk.opsets[0].version, "")
        found = shape_inference.infer_node_outputs(
            schema, node, types, input_data=data, opset_imports=walk.opsets, ir_version=onnx.IR_VERSION
        )
    except Exception as error:  # onnx's C++ code raises many types
        _fails(walk, node, shortened(error))
    values = {}
    for name in (name for name in node.output if name):
        tensor = found[name].tensor_type if name in found else onnx.TypeProto.Tensor()
        sizes = [d.dim_value if d.WhichOneof("value") == "dim_value" else -1 for d in tensor.shape.dim]
        if not tensor.HasField("shape") or any(size < 0 for size in sizes):
            _refuse(walk, node, "the size of its output depends on values that are known only in flight")
        values[name] = _Value(tensor.elem_type, tuple(sizes))
    return values


def _fails(walk: _Walk, node: onnx.NodeProto, why: str) -> NoReturn:
    raise UserError(
        f"{walk.where}: the graph fails for {walk.case}, at the operator '{node.op_type}' of node"
        f" '{node.name or next(iter(node.output), '')}': {why}. Export it with a dynamic axis for each of these."
    )


def _refuse(walk: _Walk, node: onnx.NodeProto, why: str) -> NoReturn:
    raise UserError(
        f"{walk.where}: the operator '{node.op_type}' of node '{node.name or next(iter(node.output), '')}' is refused:"
        f" {why}. Export a smaller network, whose sizes follow from those of its inputs.{hint()}"
    )


def _constant(tensor: onnx.TensorProto) -> _Value:
    value = _Value(tensor.data_type, tuple(tensor.dims))
    if value.elements <= _MOST_FOLDED and tensor.data_type != onnx.TensorProto.STRING:
        value.content = numpy_helper.to_array(tensor)
    return value


def _operations(kind: str, attributes: Mapping[str, Any], inputs: list[_Value], outputs: list[_Value]) -> int:
    """Return about how many multiplications or memory accesses a node takes."""
    elements = [value.elements for value in (*inputs, *outputs)]
    made = max((value.elements for value in outputs), default=0)
    within = sum(elements)
    if kind in ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul") and inputs[0].shape:
        # of Gemm, either axis may be the one that is summed over
        return within + made * (max(inputs[0].shape) if kind == "Gemm" else inputs[0].shape[-1])
    if kind in ("Conv", "ConvInteger", "QLinearConv"):
        weights = inputs[3 if kind == "QLinearConv" else 1].shape
        return within + made * math.prod(weights[1:])
    if kind == "ConvTranspose":
        return within + inputs[0].elements * math.prod(inputs[1].shape[1:])
    if kind in ("LSTM", "GRU", "RNN"):
        steps = math.prod(inputs[0].shape[:2])
        return within + steps * (inputs[1].elements + inputs[2].elements)
    if kind in ("AveragePool", "MaxPool", "LpPool"):
        return within + made * math.prod(attributes.get("kernel_shape", ()))
    if kind == "Einsum":
        return within + _summed(attributes, inputs)
    if kind == "LRN":
        return within * int(attributes.get("size", 1))
    return within


def _summed(attributes: Mapping[str, Any], inputs: list[_Value]) -> int:
    """Return the number of products in an Einsum: of the sizes of all its indices."""
    equation = attributes.get("equation", b"").decode(errors="replace")
    sizes: dict[str, int] = {}
    for term, value in zip(equation.partition("->")[0].replace(" ", "").split(","), inputs):
        letters, before, after = list(term), len(term.partition("...")[0]), len(term.partition("...")[2])
        if "..." in term:
            rest = len(value.shape) - before - after
            letters = [*term[:before], *(f".{rest - i}" for i in range(rest)), *(term[-after:] if after else "")]
        for letter, size in zip(letters, value.shape):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return math.prod(sizes.values())


def _folded(
    node: onnx.NodeProto, attributes: Mapping[str, Any], inputs: list[_Value | None], outputs: Mapping[str, _Value]
) -> NDArray[Any] | None:
    """Return the first output's content where it is short and follows from shapes and constants; else nothing."""
    first = outputs.get(node.output[0]) if node.output else None
    if first is None or first.elements > _MOST_FOLDED:
        return None
    if node.op_type == "Shape" and inputs[0] is not None:
        shape = inputs[0].shape[attributes.get("start", 0) : attributes.get("end")]
        return np.array(shape, dtype=np.int64)
    if node.op_type == "Size" and inputs[0] is not None:
        return np.array(inputs[0].elements, dtype=np.int64)
    if node.op_type == "ConstantOfShape":
        fill = numpy_helper.to_array(attributes["value"]) if "value" in attributes else np.zeros(1, np.float32)
        return np.full(first.shape, fill.flatten()[0], dtype=fill.dtype)
    given = [None if value is None else value.content for value in inputs]
    if any(value is not None and value.content is None for value in inputs) or node.op_type not in _FOLD:
        return None
    try:
        with np.errstate(all="ignore"):
            content = np.asarray(_FOLD[node.op_type](given, attributes, first))
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, KeyError, AttributeError):
        return None
    return content if content.shape == first.shape else None


def _slice(given: list[Any], attributes: Mapping[str, Any], first: _Value) -> Any:
    data, starts, ends = given[:3]
    axes = given[3] if len(given) > 3 and given[3] is not None else np.arange(len(starts))
    steps = given[4] if len(given) > 4 and given[4] is not None else np.ones(len(starts), np.int64)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        cut = [slice(None)] * data.ndim
        # beyond either end it stops there; backwards, an end before the first element is none
        low = None if step < 0 and end < -data.shape[axis] else int(end)
        cut[axis] = slice(int(start), low, int(step))
        data = data[tuple(cut)]
    return data


def _quotient(given: list[Any], attributes: Mapping[str, Any], first: _Value) -> Any:
    above, below = given
    if not np.issubdtype(above.dtype, np.integer):
        return above / below
    if (below == 0).any():
        raise ZeroDivisionError
    if (abs(above) >= 2**52).any():
        raise OverflowError  # the quotient in floating point would not be exact
    return np.trunc(above / below).astype(above.dtype)  # towards 0, as in C++


def _cast(given: list[Any], attributes: Mapping[str, Any], first: _Value) -> Any:
    if np.issubdtype(given[0].dtype, np.floating) and not np.isfinite(given[0]).all():
        raise ValueError("not finite")
    return given[0].astype(helper.tensor_dtype_to_np_dtype(attributes["to"]))


_Fold = Callable[[list[Any], Mapping[str, Any], _Value], Any]


def _numpy(function: Callable[..., Any]) -> _Fold:
    return lambda given, attributes, first: function(*given)


_FOLD: dict[str, _Fold] = {
    "Slice": _slice,
    "Div": _quotient,
    "Cast": _cast,
    "Concat": lambda given, attributes, first: np.concatenate(given, axis=attributes["axis"]),
    "Gather": lambda given, attributes, first: np.take(given[0], given[1], axis=attributes.get("axis", 0)),
    "Mod": lambda given, attributes, first: (np.fmod if attributes.get("fmod") else np.mod)(*given),
    "Transpose": lambda given, attributes, first: np.transpose(given[0], attributes.get("perm")),
    "Range": lambda given, attributes, first: np.arange(*given, dtype=given[0].dtype),
    **{name: lambda given, attributes, first: given[0].reshape(first.shape) for name in ("Reshape", "Squeeze")},
    **{name: lambda given, attributes, first: given[0].reshape(first.shape) for name in ("Unsqueeze", "Flatten")},
    "Identity": lambda given, attributes, first: given[0],
    "Expand": lambda given, attributes, first: np.broadcast_to(given[0], first.shape),
    # reshape raises where axes are left, and their product is not followed
    "ReduceProd": lambda given, attributes, first: np.prod(given[0], dtype=given[0].dtype).reshape(first.shape),
    "Add": _numpy(np.add),
    "Sub": _numpy(np.subtract),
    "Mul": _numpy(np.multiply),
    "Neg": _numpy(np.negative),
    "Abs": _numpy(np.abs),
    "Floor": _numpy(np.floor),
    "Ceil": _numpy(np.ceil),
    "Sqrt": _numpy(np.sqrt),
    "Min": _numpy(lambda *given: np.minimum.reduce(np.broadcast_arrays(*given))),
    "Max": _numpy(lambda *given: np.maximum.reduce(np.broadcast_arrays(*given))),
    "Where": _numpy(np.where),
    "Equal": _numpy(np.equal),
    "Less": _numpy(np.less),
    "LessOrEqual": _numpy(np.less_equal),
    "Greater": _numpy(np.greater),
    "GreaterOrEqual": _numpy(np.greater_equal),
    "Not": _numpy(np.logical_not),
    "And": _numpy(np.logical_and),
    "Or": _numpy(np.logical_or),
}
"""How short arrays of shapes and sizes are computed, from known inputs."""
