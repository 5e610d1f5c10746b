"""A plain ONNX graph: one observation in, actions out, and recurrent states of any number and layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.importers.mapping import NetworkSettings
from rlstack.importers.network import ACTIONS, MAX_BYTES, OBSERVATION, Network, Stepper, read_bytes
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX
from rlstack.policies.operators import ALLOWED


def read_onnx(path: Path, settings: NetworkSettings, folder: Path) -> Network:
    """Return the network of an ONNX file.

    The observation is the first input (batch, n), the actions are the first output (batch, m). Further inputs are
    states, float32, with one axis of size 1 or without a fixed size for the batch; they are fed by the further outputs
    in the same order, and start at zero.
    """
    where = str(path)
    data = read_bytes(path, "the ONNX file", MAX_BYTES)
    try:
        model = onnx.load_from_string(data)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf and checker raise kinds of their own
        raise UserError(f"{where} is no valid ONNX file: {' '.join(str(error).split())[:200]}.") from error
    graph = model.graph
    strange = sorted({n.op_type for n in graph.node if n.op_type not in ALLOWED or n.domain not in ("", "ai.onnx")})
    if strange:
        raise UserError(f"{where} has the operators {', '.join(strange)}, which a policy may not have.")
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in graph.initializer):
        raise UserError(f"{where} has weights in another file. Export it with external_data=False.")
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [entry for entry in graph.input if entry.name not in constants]
    outputs = list(graph.output)
    if not inputs or len(inputs) != len(outputs):
        raise UserError(
            f"{where} has {len(inputs)} inputs ({', '.join(i.name for i in inputs)}) and {len(outputs)} outputs"
            f" ({', '.join(o.name for o in outputs)}): the first of each are the observation and the actions, and every"
            " further input is a state that the further output in its place feeds."
        )
    for entry in (*inputs, *outputs):
        if entry.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
            raise UserError(f"{where}: {entry.name} is not float32.")
    n, m = _width(inputs[0], where), _width(outputs[0], where)
    states = {entry.name: _state(entry, where) for entry in inputs[1:]}
    return Network(
        _batch_first(model, inputs, outputs, states, n, m),
        n,
        m,
        _starter(data, inputs, outputs, states),
        {name: shape for name, (_, shape) in states.items()},
    )


def _sizes(entry: onnx.ValueInfoProto) -> list[int]:
    """Return the sizes of an input or output, 0 where one is free."""
    return [int(d.dim_value) for d in entry.type.tensor_type.shape.dim]


def _width(entry: onnx.ValueInfoProto, where: str) -> int:
    sizes = _sizes(entry)
    if len(sizes) != 2 or sizes[0] > 1 or sizes[1] < 1:
        raise UserError(f"{where}: {entry.name} has the shape {sizes}, and must be (batch, numbers), batch 1 or free.")
    return sizes[1]


def _state(entry: onnx.ValueInfoProto, where: str) -> tuple[int, tuple[int, ...]]:
    """Return the batch axis of a state, and its shape without it."""
    sizes = _sizes(entry)
    free = [axis for axis, size in enumerate(sizes) if size == 0]
    ones = [axis for axis, size in enumerate(sizes) if size == 1]
    # torch's recurrent layers have (layers, batch, size): of several ones the batch is that before the last axis
    found = free if len(free) == 1 else ones if len(ones) == 1 and not free else [len(sizes) - 2] if not free else []
    if not found or found[0] < 0 or sizes[found[0]] > 1:
        raise UserError(
            f"{where}: the state {entry.name} has the shape {sizes}: one axis, of size 1 or free, is needed."
        )
    axis = found[0]
    return axis, tuple(size for i, size in enumerate(sizes) if i != axis)


def _starter(
    data: bytes,
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    states: dict[str, tuple[int, tuple[int, ...]]],
) -> Callable[[], Stepper]:
    """Return what starts an episode of the original file under onnxruntime."""
    sessions: list[onnxruntime.InferenceSession] = []

    def start() -> Stepper:
        if not sessions:
            sessions.append(onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]))
        held = {n: np.zeros((*s[:axis], 1, *s[axis:]), np.float32) for n, (axis, s) in states.items()}

        def step(observation: Array) -> Array:
            fed = {inputs[0].name: observation[None].astype(np.float32), **held}
            actions, *after = sessions[0].run([o.name for o in outputs], fed)
            held.update(zip(held, after))
            return np.asarray(actions[0], dtype=float)

        return step

    return start


def _batch_first(
    model: onnx.ModelProto,
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    states: dict[str, tuple[int, tuple[int, ...]]],
    n: int,
    m: int,
) -> onnx.ModelProto:
    """Return the graph with the names of :class:`Network`, a free batch axis, and states with the batch axis first."""
    wanted = onnx.ModelProto()
    wanted.CopyFrom(model)
    graph, make = wanted.graph, onnx.helper
    before = [make.make_node("Identity", [OBSERVATION], [inputs[0].name])]
    after = [make.make_node("Identity", [outputs[0].name], [ACTIONS])]
    taken = [make.make_tensor_value_info(OBSERVATION, onnx.TensorProto.FLOAT, ["batch", n])]
    given = [make.make_tensor_value_info(ACTIONS, onnx.TensorProto.FLOAT, ["batch", m])]
    for (name, (axis, shape)), fed_by in zip(states.items(), outputs[1:]):
        into = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
        out = [axis, *(i for i in range(len(shape) + 1) if i != axis)]
        before.append(make.make_node("Transpose", [STATE_PREFIX + name], [name], perm=into))
        after.append(make.make_node("Transpose", [fed_by.name], [NEXT_STATE_PREFIX + name], perm=out))
        for declared, prefix in ((taken, STATE_PREFIX), (given, NEXT_STATE_PREFIX)):
            declared.append(make.make_tensor_value_info(prefix + name, onnx.TensorProto.FLOAT, ["batch", *shape]))
    nodes = [*before, *graph.node, *after]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.input.extend(taken)
    graph.output.extend(given)
    return wanted


IMPORTER = read_onnx
