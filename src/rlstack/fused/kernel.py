"""Kernel: a per-robot function, fused into one pass over all robots, and its reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused.adjoint import gradients
from rlstack.fused.expression import Graph, Scalar
from rlstack.fused.llvm import CompiledLoop

Rows = NDArray[Any]
"""An object array (rows,) of expressions."""

GRADIENT = "gradient of "
"""Before an array's name: the derivative of the objective with respect to it."""


class Kernel:
    """A function of N robots' rows, compiled once.

    Arrays are (rows, N) float32 with robots along the last, contiguous axis.

    Args:
        function: Takes an object array (rows,) of expressions for each input by keyword and returns such arrays by
            name. It is written for one robot, in numpy style.
        inputs: Rows of each input.
        wanted: For the reverse mode: the inputs to differentiate with respect to; None compiles the function itself.

    The reverse mode takes the inputs and, for each output, ``"gradient of <output>"``; it gives
    ``"gradient of <input>"`` for each wanted input. It computes the function again rather than keep what is inside.
    """

    def __init__(
        self,
        function: Callable[..., Mapping[str, Rows]],
        inputs: Mapping[str, int],
        wanted: tuple[str, ...] | None = None,
    ) -> None:
        graph = Graph()
        rows = {name: _input(graph, name, count) for name, count in inputs.items()}
        made = {name: np.atleast_1d(np.asarray(array, dtype=object)) for name, array in function(**rows).items()}
        results = made if wanted is None else _reverse(graph, made, rows, wanted)
        self.inputs = dict(inputs)
        if wanted is not None:
            self.inputs.update({GRADIENT + name: len(array) for name, array in made.items()})
        self.outputs = {name: len(array) for name, array in results.items()}
        """Rows of each output."""
        self.operations = len(graph)
        names = [*self.inputs, *self.outputs]
        written = [
            (name, row, _node(graph, entry)) for name, array in results.items() for row, entry in enumerate(array)
        ]
        self._loop = CompiledLoop(graph, names, written)
        self._names = names

    def __call__(self, arrays: Mapping[str, Any], count: int | None = None) -> None:
        """Compute for all robots: read the inputs and write the outputs in ``arrays`` (numpy arrays or tensors).

        An output must not share memory with an input.
        """
        addresses, strides = [], []
        for name in self._names:
            array = arrays[name]
            if isinstance(array, np.ndarray):
                addresses.append(array.__array_interface__["data"][0])
                strides.append(array.strides[0] // 4)
                width = array.shape[1]
            else:
                addresses.append(array.data_ptr())
                strides.append(array.stride(0))
                width = array.shape[1]
        count = width if count is None else count
        if count < self._loop.lanes:
            self._few(arrays, count)
            return
        self._loop(addresses, strides, count)

    def _few(self, arrays: Mapping[str, Any], count: int) -> None:
        # fewer robots than lanes are computed among copies of the first
        wide = {
            name: np.empty((r, self._loop.lanes), np.float32) for name, r in {**self.inputs, **self.outputs}.items()
        }
        for name in self.inputs:
            wide[name][:] = np.asarray(arrays[name])[:, :1]
            wide[name][:, :count] = np.asarray(arrays[name])
        self(wide)
        for name in self.outputs:
            np.asarray(arrays[name])[:] = wide[name][:, :count]


def _input(graph: Graph, name: str, count: int) -> Rows:
    rows = np.empty(count, dtype=object)
    rows[:] = [graph.input(name, row) for row in range(count)]
    return rows


def _node(graph: Graph, entry: Any) -> int:
    return entry.node if isinstance(entry, Scalar) else graph.constant(float(entry))


def _reverse(
    graph: Graph, made: Mapping[str, Rows], rows: Mapping[str, Rows], wanted: tuple[str, ...]
) -> dict[str, Rows]:
    seeds: dict[int, Scalar] = {}
    for name, array in made.items():
        for row, entry in enumerate(array):
            if isinstance(entry, Scalar) and not graph.is_bool(entry.node):
                seed = graph.input(GRADIENT + name, row)
                seeds[entry.node] = seeds[entry.node] + seed if entry.node in seeds else seed
    targets = {name: [entry.node for entry in rows[name]] for name in wanted}
    found = gradients(graph, seeds, [node for nodes in targets.values() for node in nodes])
    results = {}
    for name, nodes in targets.items():
        column = np.empty(len(nodes), dtype=object)
        column[:] = [found[node] if found[node] is not None else 0.0 for node in nodes]
        results[GRADIENT + name] = column
    return results
