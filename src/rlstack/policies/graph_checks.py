"""Checks of the ONNX graph: allowed content, and the inputs and outputs of the contract."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import inliner, numpy_helper

from rlstack.errors import UserError
from rlstack.policies.contract import ACTION, NEXT_STATE_PREFIX, NOISE, PLAN, STATE_PREFIX, Contract
from rlstack.policies.limits import hint, limits
from rlstack.policies.operators import ALLOWED

Shape = tuple[int | str, ...]

STANDARD_DOMAINS = ("", "ai.onnx")
"""Domains of standard ONNX operators; both names mean the same set."""

_REAL_TYPES = frozenset(
    number for name, number in onnx.TensorProto.DataType.items() if name in ("DOUBLE",) or "FLOAT" in name
)


def clean(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Return a copy with local functions inlined and without metadata.

    Exporters leave notes on every node, including paths and source lines of the training machine, which do not belong
    in a shared file.
    """
    cleaned = onnx.ModelProto()
    cleaned.CopyFrom(model)
    if cleaned.functions:
        try:
            cleaned = inliner.inline_local_functions(cleaned)
        except Exception as error:  # the C++ inliner raises many types
            raise UserError(f"{where}: the graph's local functions cannot be inlined: {shortened(error)}.") from error
    for part in (cleaned, cleaned.graph):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    cleaned.ClearField("training_info")
    domains = {node.domain for graph in _graphs(cleaned.graph) for node in graph.node} | set(STANDARD_DOMAINS)
    used = [o for o in cleaned.opset_import if o.domain in domains]
    del cleaned.opset_import[:]
    cleaned.opset_import.extend(used)
    for graph in _graphs(cleaned.graph):
        for values in (graph.node, graph.input, graph.output, graph.value_info, graph.initializer):
            for value in values:
                value.ClearField("doc_string")
                value.ClearField("metadata_props")
    return cleaned


def check_graph(model: onnx.ModelProto, contract: Contract, where: str) -> None:
    """Raise ``UserError`` for external files, other operators, non-finite weights, or a mismatch with the contract.

    It only reads the message, so it is safe on a file of unknown origin.

    Raises:
        UserError: Names the problem, its place in the graph, and the remedy.
    """
    check_content(model, where)
    inputs: dict[str, Shape] = {p.name: p.shape for p in contract.inputs}
    outputs: dict[str, Shape] = {p.name: p.shape for p in contract.outputs}
    inputs.update({STATE_PREFIX + s.name: s.shape for s in contract.state})
    outputs.update({NEXT_STATE_PREFIX + s.name: s.shape for s in contract.state})
    inputs.update({p.name: p.shape for p in contract.optional})
    constants = {t.name for t in model.graph.initializer} | {t.values.name for t in model.graph.sparse_initializer}
    constants -= {p.name for p in contract.optional}
    _check_interface("input", [v for v in model.graph.input if v.name not in constants], inputs, where)
    _check_interface("output", list(model.graph.output), outputs, where)
    _check_default(model, contract, where)
    made = {name for node in model.graph.node for name in node.output}
    if contract.chunk and (len(contract.chunk) != 2 or min(contract.chunk) < 1 or not {PLAN, ACTION} <= made):
        raise UserError(
            f"{where}: by the contract it plans chunks {list(contract.chunk)}, but these must be steps and axes, and"
            f" the graph must name the tensors '{PLAN}' and '{ACTION}'. Export the policy again so that both agree."
        )


def _check_default(model: onnx.ModelProto, contract: Contract, where: str) -> None:
    """Raise ``UserError`` if a graph with noise does not take it for 0 where it is not given."""
    if not contract.noise:
        return
    defaults = [numpy_helper.to_array(t) for t in model.graph.initializer if t.name == NOISE]
    if not defaults or defaults[0].shape != (1, *contract.noise) or defaults[0].any():
        raise UserError(
            f"{where}: by the contract it takes noise {list(contract.noise)}, but its graph has no zeros"
            f" {[1, *contract.noise]} named '{NOISE}' as the default of that input. Export the policy again so that"
            " both agree."
        )


def check_content(model: onnx.ModelProto, where: str) -> None:
    """Raise ``UserError`` for operators and weights that a policy may not have, whatever its interface."""
    _check_operators(model, where)
    for owner, tensor in _tensors(model.graph):
        _check_tensor(owner, tensor, where)
    _check_attributes(model.graph, where)


def check_model(model: onnx.ModelProto, where: str) -> None:
    """Run ONNX's own checker: every operator exists in the declared opset and the graph's types and shapes agree.

    Raises:
        UserError: With the checker's finding.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # ValidationError, InferenceError and others share no base
        raise UserError(
            f"{where}: the graph is not valid ONNX: {shortened(error)}."
            " Export it again with operators and an opset that onnx and onnxruntime here know (`rlstack doctor`)."
        ) from error


def _check_operators(model: onnx.ModelProto, where: str) -> None:
    if model.functions:
        raise UserError(
            f"{where}: the graph defines functions of its own ('{model.functions[0].name}')."
            " Inline them (write_policy does) and export the policy again."
        )
    graphs = list(_graphs(model.graph))
    if (count := sum(len(graph.node) + len(graph.initializer) for graph in graphs)) > limits().nodes:
        raise UserError(
            f"{where}: the graph has {count:,} nodes and weights, more than {limits().nodes:,}. Export a smaller"
            f" network, or one whose loops are not unrolled.{hint()}"
        )
    if any(graph.sparse_initializer for graph in graphs):
        raise UserError(f"{where}: the graph has sparse weights. Export it again with dense ones.")
    for graph in graphs:
        for node in graph.node:
            if node.domain not in STANDARD_DOMAINS:
                raise UserError(
                    f"{where}: the operator '{node.op_type}' of node '{node.name}' is from the domain"
                    f" '{node.domain}', which onnxruntime does not have everywhere. Export the policy again with"
                    " standard ONNX operators only."
                )
            if node.op_type not in ALLOWED:
                raise UserError(
                    f"{where}: the operator '{node.op_type}' of node '{node.name}' is not one of those that a policy"
                    " may have: those of ordinary networks, without loops, branches, text, random numbers and sizes"
                    " that depend on values. Export the policy again without it (docs/policy-file.md)."
                )


def _check_tensor(owner: str, tensor: onnx.TensorProto, where: str) -> None:
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise UserError(
            f"{where}: the weights '{owner}' are outside the file, and a policy is one file."
            " Export it again with external_data=False, or load it with its data and save it as one file."
        )
    if math.prod(tensor.dims) > limits().elements:
        raise UserError(
            f"{where}: the weights '{owner}' have {math.prod(tensor.dims):,} values, more than {limits().elements:,}."
            " Export a smaller network."
        )
    try:
        values = numpy_helper.to_array(tensor)
    except Exception as error:  # numpy and onnx raise many types on sizes that do not fit
        raise UserError(f"{where}: the weights '{owner}' cannot be read: {shortened(error)}. Copy it again.") from error
    if tensor.data_type not in _REAL_TYPES:
        return
    with np.errstate(invalid="ignore"):  # a signalling NaN warns when it is converted
        values = values.astype(np.float64)
    # A scalar infinity is an open limit or an attention mask; among weights it means diverged training.
    bad = np.isnan(values) if values.size == 1 else ~np.isfinite(values)
    if bad.any():
        raise UserError(
            f"{where}: the weights '{owner}' hold {int(bad.sum())} values that are NaN or infinite: the training"
            " diverged. Export an earlier checkpoint of the run, or train again."
        )


def _check_attributes(graph: onnx.GraphProto, where: str) -> None:
    for inner in _graphs(graph):
        for node in inner.node:
            for attribute in node.attribute:
                if np.isnan(attribute.f) or not np.isfinite(attribute.floats).all():
                    raise UserError(
                        f"{where}: the constant '{attribute.name}' of node '{node.name or node.op_type}' is NaN or"
                        " infinite: the training diverged. Export an earlier checkpoint of the run, or train again."
                    )


def _check_interface(kind: str, values: list[onnx.ValueInfoProto], expected: dict[str, Shape], where: str) -> None:
    found = {value.name: value for value in values}
    advice = "Export the policy again so that graph and contract agree."
    symbols: dict[str, tuple[str, str]] = {}
    for name in expected:
        if name not in found:
            raise UserError(
                f"{where}: the graph has no {kind} '{name}' that the contract names"
                f" (it has {', '.join(map(str, found))}). {advice}"
            )
    for name, value in found.items():
        if name not in expected:
            raise UserError(
                f"{where}: the graph has the {kind} '{name}' that the contract does not name"
                f" (it names {', '.join(expected)}). {advice}"
            )
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or tensor.elem_type != onnx.TensorProto.FLOAT:
            raise UserError(f"{where}: the graph's {kind} '{name}' is not a float32 tensor. Export it as float32.")
        sizes = [
            d.dim_value if d.WhichOneof("value") == "dim_value" else (d.dim_param or "?") for d in tensor.shape.dim
        ]
        if not tensor.HasField("shape") or not _fits(sizes[1:], expected[name]):
            raise UserError(
                f"{where}: the graph's {kind} '{name}' has the shape [{', '.join(map(str, sizes))}], but by the"
                f" contract it is [{', '.join(map(str, ('batch', *expected[name])))}]. {advice}"
            )
        if isinstance(sizes[0], int):
            raise UserError(
                f"{where}: the graph's {kind} '{name}' has a first axis of fixed size {sizes[0]}."
                " Export it with a dynamic batch axis (dynamic_shapes in torch.onnx.export)."
            )
        for symbol, size in zip(expected[name], sizes[1:]):
            if isinstance(symbol, str):
                _check_symbol(symbols, symbol, str(size), f"{kind} '{name}'", str(sizes[0]), where)


def _fits(found: list[int | str], wanted: Shape) -> bool:
    return len(found) == len(wanted) and all(
        isinstance(size, str) and size != "?" if isinstance(expected, str) else size == expected
        for size, expected in zip(found, wanted)
    )


def _check_symbol(seen: dict[str, tuple[str, str]], symbol: str, size: str, port: str, batch: str, where: str) -> None:
    """Raise ``UserError`` if an axis of the contract has different names in the graph, or the batch axis's."""
    before, first = seen.setdefault(symbol, (size, port))
    if before != size or size == batch:
        other = f"'{before}' in its {first}" if before != size else "that of the batch axis"
        raise UserError(
            f"{where}: the axis '{symbol}' of the contract is '{size}' in the graph's {port}, but {other}."
            " Export the policy again with one dynamic axis for it, and another for the batch."
        )


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph and every graph inside its If, Loop and Scan nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _graphs(inner)


def _tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield every constant tensor with a name for it in errors."""
    for inner in _graphs(graph):
        for tensor in inner.initializer:
            yield tensor.name, tensor
        for sparse in inner.sparse_initializer:
            yield sparse.values.name, sparse.values
            yield sparse.values.name, sparse.indices
        for node in inner.node:
            name = node.name or node.op_type
            for attribute in node.attribute:
                for tensor in ([attribute.t] if attribute.HasField("t") else []) + list(attribute.tensors):
                    yield name, tensor
                sparse_tensors = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
                for sparse in sparse_tensors + list(attribute.sparse_tensors):
                    yield name, sparse.values
                    yield name, sparse.indices


def shortened(error: BaseException) -> str:
    """Return an error's text on one line, without a full stop."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:300].rstrip(".")
