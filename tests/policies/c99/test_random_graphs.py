"""Random graphs of several operators as C against onnxruntime; the graphs of one example are compiled at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from ...support.compiled_graphs import CompiledGraphs, answer, graph_of
from ...support.compiled_policy import needs_compiler

LARGEST = 240
"""Elements of a tensor."""

UNARY = [
    "Abs",
    "Atan",
    "Cos",
    "Elu",
    "Erf",
    "Gelu",
    "HardSwish",
    "LeakyRelu",
    "Neg",
    "Relu",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Identity",
]
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceLogSumExp")

Shape = tuple[int, ...]


class Graph:
    """Grows by one node at a time, each fitting to the tensor before it."""

    def __init__(self, choose: Callable[[int], int], seed: int) -> None:
        self._choose = choose
        self._random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.given = (1, *(1 + choose(4) for _ in range(1 + choose(3))))[1:]
        self.now, self.shape = "x", (1, *self.given)
        self.tensors: list[tuple[str, Shape]] = [(self.now, self.shape)]
        for _ in range(2 + choose(6)):
            kind = KINDS[choose(len(KINDS))]
            kind(self)
        self._reshape(1, self._size())
        self.nodes.append(helper.make_node("Identity", [self.now], ["out"]))

    def unary(self) -> None:
        self._node(UNARY[self._choose(len(UNARY))], self.now)

    def binary(self) -> None:
        other = tuple(n if self._choose(2) else 1 for n in self.shape)[self._choose(len(self.shape)) :]
        name = self._constant(self._weights(*other))
        fitting = [n for n, shape in self.tensors if broadcast(shape, self.shape) == self.shape]
        if fitting and self._choose(2):
            name = fitting[self._choose(len(fitting))]
        operands = [self.now, name] if self._choose(2) else [name, self.now]
        self._node(BINARY[self._choose(len(BINARY))], *operands)

    def product(self) -> None:
        if len(self.shape) < 2:
            return
        columns = 1 + self._choose(5)
        weights = self._weights(self.shape[-1], columns) / np.sqrt(np.float32(self.shape[-1]))
        shape = (*self.shape[:-1], columns)
        if len(self.shape) == 2 and self._choose(2):
            self._node(
                "Gemm",
                self.now,
                self._constant(weights.T),
                self._constant(self._weights(columns)),
                shape=shape,
                transB=1,
            )
        else:
            self._node("MatMul", self.now, self._constant(weights), shape=shape)

    def reduction(self) -> None:
        if not self.shape:
            return
        axes = sorted({self._choose(len(self.shape)) for _ in range(1 + self._choose(2))})
        kept = self._choose(2)
        shape = tuple(1 if a in axes else n for a, n in enumerate(self.shape) if kept or a not in axes)
        self._node(
            REDUCTIONS[self._choose(len(REDUCTIONS))],
            self.now,
            self._constant(np.array(axes)),
            shape=shape,
            keepdims=kept,
        )

    def normalised(self) -> None:
        if not self.shape:
            return
        if self._choose(2):
            self._node("Softmax", self.now, axis=self._choose(len(self.shape)))
        else:
            weights = self._constant(self._weights(self.shape[-1]))
            self._node("LayerNormalization", self.now, weights, axis=-1, epsilon=0.1)

    def transposed(self) -> None:
        if not self.shape:
            return
        order = list(range(len(self.shape)))
        for place in range(len(order) - 1):
            other = place + self._choose(len(order) - place)
            order[place], order[other] = order[other], order[place]
        self._node("Transpose", self.now, shape=tuple(self.shape[a] for a in order), perm=order)

    def reshaped(self) -> None:
        if len(self.shape) < 2:
            return
        at = self._choose(len(self.shape) - 1)
        self._reshape(*self.shape[:at], self.shape[at] * self.shape[at + 1], *self.shape[at + 2 :])

    def unsqueezed(self) -> None:
        if len(self.shape) < 5:
            at = self._choose(len(self.shape) + 1)
            shape = (*self.shape[:at], 1, *self.shape[at:])
            self._node("Unsqueeze", self.now, self._constant(np.array([at])), shape=shape)

    def expanded(self) -> None:
        if not self.shape:
            return
        shape = tuple(1 + self._choose(3) if n == 1 else n for n in self.shape)
        if np.prod(shape) <= LARGEST:
            self._node("Expand", self.now, self._constant(np.array(shape)), shape=shape)

    def sliced(self) -> None:
        axis = self._axis()
        if axis is None:
            return
        size, step = self.shape[axis], (1, 2, -1, -2)[self._choose(4)]
        ends = [0, self._choose(size)] if step > 0 else [size - 1, -(2**31)]
        start, end = (ends[1], size + self._choose(2)) if step > 0 else ends
        count = len(range(size)[start : None if end < -size else end : step])
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        numbers = [self._constant(np.array([n])) for n in (start, end, axis, step)]
        self._node("Slice", self.now, *numbers, shape=shape)

    def joined(self) -> None:
        axis = self._axis()
        if axis is None:
            return
        alike = [
            (n, s)
            for n, s in self.tensors
            if len(s) == len(self.shape) and all(a == b for i, (a, b) in enumerate(zip(s, self.shape)) if i != axis)
        ]
        name, shape = alike[self._choose(len(alike))]
        size = shape[axis] + self.shape[axis]
        if np.prod(self.shape) // self.shape[axis] * size <= LARGEST:
            self._node("Concat", name, self.now, shape=(*self.shape[:axis], size, *self.shape[axis + 1 :]), axis=axis)

    def gathered(self) -> None:
        axis = self._axis()
        if axis is None:
            return
        places = np.array([self._choose(self.shape[axis]) - self._choose(2) for _ in range(1 + self._choose(3))])
        shape = (*self.shape[:axis], len(places), *self.shape[axis + 1 :])
        self._node("Gather", self.now, self._constant(places), shape=shape, axis=axis)

    def padded(self) -> None:
        if not self.shape:
            return
        before, after = ([self._choose(2) for _ in self.shape] for _ in range(2))
        shape = tuple(n + b + a for n, b, a in zip(self.shape, before, after))
        if np.prod(shape) <= LARGEST:
            self._node("Pad", self.now, self._constant(np.array(before + after)), shape=shape)

    def chosen(self) -> None:
        self._node("Greater", self.now, self._constant(np.float32(0.1234567)), result="truths")
        other = self._constant(self._weights(self.shape[-1] if self.shape else 1))
        self._node(
            "Where", "truths" + self.now, self.now, other, shape=broadcast(self.shape, self.constants[other].shape)
        )

    def windows(self) -> None:
        if len(self.shape) not in (3, 4):
            self._reshape(1, *self._split())
        sizes = [1 + self._choose(min(n, 3)) for n in self.shape[2:]]
        strides = [1 + self._choose(2) for _ in sizes]
        pads = [self._choose(size) // 2 for size in sizes] * 2
        places = [(n + 2 * p - size) // step + 1 for n, p, size, step in zip(self.shape[2:], pads, sizes, strides)]
        settings = {"strides": strides, "pads": pads}
        kind = ("Conv", "MaxPool", "AveragePool")[self._choose(3)]
        maps = 1 + self._choose(3) if kind == "Conv" else self.shape[1]
        given = [self.now]
        if kind == "Conv":
            given.append(self._constant(self._weights(maps, self.shape[1], *sizes) / 2))
            given.append(self._constant(self._weights(maps)))
        self._node(kind, *given, shape=(self.shape[0], maps, *places), kernel_shape=sizes, **settings)

    def recurrent(self) -> None:
        if len(self.shape) != 3 or self.shape[1] != 1:
            steps, size = self._split()
            self._reshape(steps, 1, size)
        hidden, (kind, gates) = 1 + self._choose(4), (("GRU", 3), ("LSTM", 4), ("RNN", 1))[self._choose(3)]
        weights = [(1, gates * hidden, self.shape[2]), (1, gates * hidden, hidden), (1, 2 * gates * hidden)]
        names = [self._constant(self._weights(*shape)) for shape in weights]
        settings = {"linear_before_reset": self._choose(2)} if kind == "GRU" else {}
        self._node(kind, self.now, *names, shape=(self.shape[0], 1, 1, hidden), hidden_size=hidden, **settings)

    def _reshape(self, *shape: int) -> None:
        self._node("Reshape", self.now, self._constant(np.array(shape)), shape=shape)

    def _size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    def _split(self) -> tuple[int, int]:
        """Return two factors of the number of elements, the first of which is small."""
        first = next(n for n in (3, 2, 1) if self._size() % n == 0)
        return first, self._size() // first

    def _axis(self) -> int | None:
        return self._choose(len(self.shape)) if self.shape else None

    def _weights(self, *shape: int) -> NDArray[np.float32]:
        return self._random.normal(size=shape).astype(np.float32)

    def _constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(values)
        return name

    def _node(
        self, operator: str, *inputs: str, shape: Shape | None = None, result: str = "", **attributes: Any
    ) -> None:
        name = result + self.now if result else f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        if not result:
            self.now, self.shape = name, self.shape if shape is None else tuple(shape)
            self.tensors.append((self.now, self.shape))


KINDS = (
    Graph.unary,
    Graph.unary,
    Graph.binary,
    Graph.binary,
    Graph.product,
    Graph.reduction,
    Graph.normalised,
    Graph.transposed,
    Graph.reshaped,
    Graph.unsqueezed,
    Graph.expanded,
    Graph.sliced,
    Graph.joined,
    Graph.gathered,
    Graph.padded,
    Graph.chosen,
    Graph.windows,
    Graph.recurrent,
)


def broadcast(*shapes: Shape) -> Shape | None:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        return None


@needs_compiler
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_graphs_compute_what_onnxruntime_does(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1)) if count > 1 else 0

    graphs = [Graph(choose, seed) for seed in range(16)]
    protos = [graph_of(graph.nodes, graph.constants, graph.given) for graph in graphs]
    inputs = [np.random.default_rng(7).uniform(-2.0, 2.0, (1, *g.given)).astype(np.float32) for g in graphs]
    expected = [answer(proto, x) for proto, x in zip(protos, inputs)]
    shapes = [(graph.given, wanted.shape[1:]) for graph, wanted in zip(graphs, expected)]
    compiled = CompiledGraphs(protos, shapes, tmp_path_factory.mktemp("graphs"))
    for number, (graph, x, wanted) in enumerate(zip(graphs, inputs, expected)):
        written = [f"{node.op_type} {list(node.input)} -> {node.output[0]}" for node in graph.nodes]
        scale = 1e-5 * max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(compiled(number, x), wanted, rtol=0.0, atol=scale, err_msg="\n".join(written))
