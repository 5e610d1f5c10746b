"""ONNX graphs, one or several that feed each other, as one network with a free batch axis."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, compose, helper, numpy_helper

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.importers.batch_axis import free_batch
from rlstack.importers.mapping import PREVIOUS_ACTION
from rlstack.importers.network import ACTIONS, OBSERVATION, Network, NetworkInput, Stepper, at_opset
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX
from rlstack.policies.graph_checks import check_content, clean, shortened

Place = tuple[str, str]
"""A part's name, and that of its input or output."""

_STARTED = "started"
_TYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.BOOL: np.bool_,
}


@dataclass(frozen=True)
class Part:
    """One graph."""

    name: str
    model: onnx.ModelProto
    data: bytes
    """The file as it was read: what decides on parity."""


@dataclass(frozen=True)
class Feedback:
    """An output that is an input of the next step."""

    source: Place
    target: Place
    initial: Any = None
    """Array of the target's shape; default: zeros."""


@dataclass(frozen=True)
class Pipeline:
    """Graphs in the order in which they run."""

    parts: Sequence[Part]
    inputs: Mapping[Place, NetworkInput]
    """What makes the observation, in its order."""
    output: Place
    """The actions."""
    flows: Mapping[Place, Place] = field(default_factory=dict)
    """Source of each input that a graph before it feeds."""
    feedback: Sequence[Feedback] = ()


@dataclass(frozen=True)
class _State:
    """A fed back input: its name in the policy file, and its shape and type in the graph."""

    name: str
    feedback: Feedback
    axis: int
    """Of the batch."""
    shape: tuple[int, ...]
    """Without the batch."""
    type: int

    @property
    def initial(self) -> Array:
        """Of one robot, batch first."""
        given = self.feedback.initial
        if given is None:
            return np.zeros((1, *self.shape), np.float32)
        return np.asarray(np.moveaxis(given, self.axis, 0), dtype=np.float32)


def read_part(name: str, data: bytes, where: str) -> Part:
    """Return a graph, checked to have what a policy may have.

    Raises:
        UserError: It is no ONNX file, or its operators or weights are refused.
    """
    try:
        model = onnx.load_from_string(data)
    except Exception as error:  # protobuf raises kinds of its own
        raise UserError(f"{where} is no ONNX file: {shortened(error)}.") from error
    if not model.graph.node:
        raise UserError(f"{where} is no ONNX file, or has an empty graph.")
    model = clean(model, where)
    check_content(model, where)
    return Part(name, model, data)


def pipeline_network(pipeline: Pipeline, where: str, facts: Mapping[str, Any]) -> Network:
    """Return graphs as one network.

    Raises:
        UserError: An input or output is no vector of float32, a state has no batch axis, or the graphs cannot be run
            for several robots at once.
    """
    models = {part.name: part.model for part in pipeline.parts}
    size = sum(entry.size for entry in pipeline.inputs.values())
    fed = {*pipeline.inputs, *pipeline.flows, *(feedback.target for feedback in pipeline.feedback)}
    for part in pipeline.parts:
        for name in inputs_of(part.model):
            if (part.name, name) not in fed:
                raise UserError(f"{where}: nothing feeds the input {name} of the graph {part.name}.")
    for place, entry in pipeline.inputs.items():
        _vector(models, place, "input", where, entry.size)
    actions = _vector(models, pipeline.output, "output", where)
    states = _states(models, pipeline.feedback, where)
    starter = _starter(pipeline, states, where)
    joined = free_batch(_joined(pipeline, states, size, actions, where), where)
    shapes = {state.name: state.shape for state in states}
    if any(state.initial.any() for state in states):
        shapes[_STARTED] = (1,)
    network = Network(joined, size, actions, starter, shapes, facts, tuple(pipeline.inputs.values()))
    _check_batch(network, where)
    return network


def value_of(model: onnx.ModelProto, name: str, kind: str) -> onnx.ValueInfoProto | None:
    """Return an input or output of a graph by its name."""
    entries = model.graph.input if kind == "input" else model.graph.output
    return next((entry for entry in entries if entry.name == name), None)


def inputs_of(model: onnx.ModelProto) -> list[str]:
    """Return the names of a graph's inputs, without constants that have a default."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [entry.name for entry in model.graph.input if entry.name not in constants]


def sizes_of(entry: onnx.ValueInfoProto) -> list[int]:
    """Return the sizes of an input or output, 0 where one is free."""
    return [int(axis.dim_value) for axis in entry.type.tensor_type.shape.dim]


def _entry(models: Mapping[str, onnx.ModelProto], place: Place, kind: str, where: str) -> onnx.ValueInfoProto:
    entry = value_of(models[place[0]], place[1], kind)
    if entry is None:
        graph = models[place[0]].graph
        has = ", ".join(e.name for e in (graph.input if kind == "input" else graph.output))
        raise UserError(f"{where}: the graph {place[0]} has no {kind} '{place[1]}'; it has {has}.")
    return entry


def _vector(models: Mapping[str, onnx.ModelProto], place: Place, kind: str, where: str, size: int = 0) -> int:
    entry = _entry(models, place, kind, where)
    sizes = sizes_of(entry)
    if len(sizes) != 2 or sizes[0] > 1 or sizes[1] < 1:
        raise UserError(
            f"{where}: the {kind} {place[1]} has the shape {sizes}, and must be (batch, numbers), with a batch of 1 or"
            " free (0)."
        )
    if size and sizes[1] != size:
        raise UserError(f"{where}: the {kind} {place[1]} has {sizes[1]} numbers in the graph, and {size} by its YAML.")
    if entry.type.tensor_type.elem_type != TensorProto.FLOAT:
        raise UserError(f"{where}: the {kind} {place[1]} is not float32.")
    return sizes[1]


def _states(models: Mapping[str, onnx.ModelProto], feedback: Sequence[Feedback], where: str) -> list[_State]:
    states: list[_State] = []
    for fed in feedback:
        before, after = _entry(models, fed.target, "input", where), _entry(models, fed.source, "output", where)
        sizes = sizes_of(before)
        free = [axis for axis, size in enumerate(sizes) if size == 0]
        ones = [axis for axis, size in enumerate(sizes) if size == 1]
        found = free or ones
        # torch's recurrent layers have (layers, batch, size): of several axes of size 1, the batch is before the last
        axis = found[0] if found and (len(found) == 1 or len(sizes) == 2) else len(sizes) - 2
        kind = before.type.tensor_type.elem_type
        if axis not in found or len(free) > 1 or len(sizes) < 2:
            raise UserError(f"{where}: the state {fed.target[1]} has the shape {sizes}: it needs an axis of the batch.")
        if kind not in _TYPES or after.type.tensor_type.elem_type != kind:
            raise UserError(f"{where}: {fed.source[1]} cannot feed {fed.target[1]}: their types differ or are unknown.")
        if len(sizes_of(after)) != len(sizes):
            raise UserError(
                f"{where}: {fed.source[1]} has the shape {sizes_of(after)}, but feeds {fed.target[1]} of {sizes}."
            )
        if fed.initial is not None and list(np.shape(fed.initial)) != [max(size, 1) for size in sizes]:
            raise UserError(
                f"{where}: the initial value of {fed.target[1]} has the shape {list(np.shape(fed.initial))}, and must"
                f" have {[max(size, 1) for size in sizes]}."
            )
        name = re.sub(r"\W", "_", fed.target[1] if len(models) == 1 else "_".join(fed.target))
        taken = {PREVIOUS_ACTION, _STARTED, *(state.name for state in states)}
        while name in taken:
            name = f"network_{name}"
        states.append(_State(name, fed, axis, tuple(s for i, s in enumerate(sizes) if i != axis), kind))
    return states


def _starter(pipeline: Pipeline, states: Sequence[_State], where: str) -> Callable[[], Stepper]:
    """Return what starts an episode of the original files under onnxruntime."""
    sessions: dict[str, onnxruntime.InferenceSession] = {}

    def start() -> Stepper:
        for part in pipeline.parts if not sessions else ():
            sessions[part.name] = _session(part.data, f"{where}: {part.name}")
        held: dict[Place, Any] = {
            s.feedback.target: np.moveaxis(s.initial, 0, s.axis).astype(_TYPES[s.type])  # of one robot
            for s in states
        }

        def step(observation: Array) -> Array:
            values: dict[Place, Any] = dict(held)
            first = 0
            for place, entry in pipeline.inputs.items():
                values[place] = observation[None, first : first + entry.size].astype(np.float32)
                first += entry.size
            given: dict[Place, Any] = {}
            for part in pipeline.parts:
                session = sessions[part.name]
                fed = {}
                for entry in session.get_inputs():
                    place = (part.name, entry.name)
                    fed[entry.name] = given[pipeline.flows[place]] if place in pipeline.flows else values[place]
                names = [entry.name for entry in session.get_outputs()]
                given.update({(part.name, n): v for n, v in zip(names, session.run(names, fed))})
            held.update({s.feedback.target: given[s.feedback.source] for s in states})
            return np.asarray(given[pipeline.output][0], dtype=float)

        return step

    return start


def _session(data: bytes, where: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises kinds of its own
        raise UserError(f"{where} cannot be run by onnxruntime: {shortened(error)}.") from error


def _joined(pipeline: Pipeline, states: Sequence[_State], size: int, actions: int, where: str) -> onnx.ModelProto:
    """Return one graph with the names of :class:`Network` and states with the batch axis first."""
    parts = [compose.add_prefix(at_opset(part.model, where), f"{part.name}/") for part in pipeline.parts]
    make, float32 = helper.make_node, TensorProto.FLOAT
    place = "/".join
    graph = onnx.GraphProto(name="network")
    taken = [helper.make_tensor_value_info(OBSERVATION, float32, ["batch", size])]
    given = [helper.make_tensor_value_info(ACTIONS, float32, ["batch", actions])]
    names = [place(p) for p in pipeline.inputs]
    if len(names) == 1:
        graph.node.append(make("Identity", [OBSERVATION], names))
    else:
        sizes = np.array([entry.size for entry in pipeline.inputs.values()], np.int64)
        graph.initializer.append(numpy_helper.from_array(sizes, "sizes"))
        graph.node.append(make("Split", [OBSERVATION, "sizes"], names, axis=1))
    if any(state.initial.any() for state in states):
        _begin(graph, taken, given)
    after = []
    for state in states:
        rank = len(state.shape) + 1
        into = [*range(1, state.axis + 1), 0, *range(state.axis + 1, rank)]
        out = [state.axis, *(i for i in range(rank) if i != state.axis)]
        name, label = STATE_PREFIX + state.name, f"{state.name}/held"
        if state.initial.any():
            graph.initializer.append(numpy_helper.from_array(state.initial, f"{state.name}/initial"))
            axes = np.arange(2, rank, dtype=np.int64)
            graph.initializer.append(numpy_helper.from_array(axes, f"{state.name}/axes"))
            shaped = f"{state.name}/started"
            graph.node.append(make("Unsqueeze", ["started/yes", f"{state.name}/axes"], [shaped]))
            graph.node.append(make("Where", [shaped, name, f"{state.name}/initial"], [label]))
        else:
            graph.node.append(make("Identity", [name], [label]))
        graph.node.append(make("Transpose", [label], [f"{label}/turned"], perm=into))
        graph.node.append(make("Cast", [f"{label}/turned"], [place(state.feedback.target)], to=state.type))
        for declared, prefix in ((taken, STATE_PREFIX), (given, NEXT_STATE_PREFIX)):
            declared.append(helper.make_tensor_value_info(prefix + state.name, float32, ["batch", *state.shape]))
        after.append(make("Cast", [place(state.feedback.source)], [f"{state.name}/after"], to=float32))
        after.append(make("Transpose", [f"{state.name}/after"], [NEXT_STATE_PREFIX + state.name], perm=out))
    for part, model in zip(pipeline.parts, parts):
        for entry in model.graph.input:
            source = pipeline.flows.get((part.name, entry.name.removeprefix(f"{part.name}/")))
            if source is not None:
                graph.node.append(make("Identity", [place(source)], [entry.name]))
        graph.node.extend(model.graph.node)
        graph.initializer.extend(model.graph.initializer)
    graph.node.extend([*after, make("Identity", [place(pipeline.output)], [ACTIONS])])
    graph.input.extend(taken)
    graph.output.extend(given)
    joined = helper.make_model(graph, opset_imports=parts[0].opset_import)
    joined.ir_version = max(model.ir_version for model in parts)
    return joined


def _begin(graph: onnx.GraphProto, taken: list[onnx.ValueInfoProto], given: list[onnx.ValueInfoProto]) -> None:
    """Add a state that is 0 in the first step and 1 after it: policy files start every state at zero."""
    make = helper.make_node
    for declared, prefix in ((taken, STATE_PREFIX), (given, NEXT_STATE_PREFIX)):
        declared.append(helper.make_tensor_value_info(prefix + _STARTED, TensorProto.FLOAT, ["batch", 1]))
    for name, number in (("none", 0.0), ("half", 0.5), ("one", 1.0)):
        graph.initializer.append(numpy_helper.from_array(np.array(number, np.float32), f"started/{name}"))
    graph.node.append(make("Greater", [STATE_PREFIX + _STARTED, "started/half"], ["started/yes"]))
    graph.node.append(make("Mul", [STATE_PREFIX + _STARTED, "started/none"], ["started/zero"]))
    graph.node.append(make("Add", ["started/zero", "started/one"], [NEXT_STATE_PREFIX + _STARTED]))


def _check_batch(network: Network, where: str) -> None:
    """Raise ``UserError`` if the joined graph answers three robots otherwise than the files answer each."""
    rng, robots = np.random.default_rng(0), 3
    states = {name: np.zeros((robots, *shape), np.float32) for name, shape in network.state.items()}
    session = _session(network.model.SerializeToString(), where)
    names = [ACTIONS, *(NEXT_STATE_PREFIX + name for name in states)]
    steppers = [network.start() for _ in range(robots)]
    for _ in range(3):
        seen = rng.normal(0.0, 0.5, (robots, network.observation_size)).astype(np.float32)
        wanted = np.stack([step(row) for step, row in zip(steppers, seen)])
        fed = {OBSERVATION: seen, **{STATE_PREFIX + name: value for name, value in states.items()}}
        try:
            actions, *after = session.run(names, fed)
        except Exception as error:  # onnxruntime raises kinds of its own
            raise _one_robot(where, shortened(error)) from error
        states = dict(zip(states, after))
        if actions.shape != wanted.shape or not np.allclose(actions, wanted, rtol=1e-4, atol=1e-5):
            raise _one_robot(where, f"it gives {actions.tolist()} where each robot alone gets {wanted.tolist()}")


def _one_robot(where: str, said: str) -> UserError:
    return UserError(
        f"{where} works for one robot at a time, and a policy must for several: {said[:300]}. Export it again with a"
        " free batch axis (dynamic_shapes or dynamic_axes in torch.onnx.export)."
    )
