"""A per-robot function compiled into one fused pass over all robots, with reverse-mode derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rlstack.fused.adjoint import gradients
from rlstack.fused.expression import Scalar
from rlstack.fused.graph import Graph
from rlstack.fused.launches import Launches
from rlstack.fused.tracing import Rows, input_rows, output_rows

GRADIENT = "gradient of "
"""Prefix of an array's name for the derivative of the objective with respect to it."""


class Kernel(Launches):
    """A compiled function on the rows of N robots.

    Arrays are (rows, N) numpy, torch or Warp arrays of one dtype, with robots along the last, contiguous axis.

    Args:
        function: Takes an object array (rows,) of expressions for each input by keyword and returns such arrays by
            name. It is written for one robot, in numpy style.
        inputs: Number of rows of each input.
        wanted: Inputs to differentiate with respect to, in reverse mode; None compiles the function itself.
        device: Device of the arrays, ``"cpu"`` or ``"cuda:0"``.
        dtype: Type of all arrays and of the arithmetic: ``"float32"``, vectorized over robots, or on the CPU
            ``"float64"``, one robot after the other.

    In reverse mode the kernel takes the inputs and ``"gradient of <output>"`` for each output, and writes
    ``"gradient of <input>"`` for each wanted input. It recomputes the function instead of storing intermediate values.

    Raises:
        TypeError: The function branches on a value, returns something else, or uses an unsupported operation.
        ValueError: An array in ``wanted`` is not an input, an output has the name of an input, or the dtype is unknown.
        UserError: The device does not exist here or does not support the dtype, or its compiler is not installed.
    """

    def __init__(
        self,
        function: Callable[..., Mapping[str, Rows]],
        inputs: Mapping[str, int],
        wanted: tuple[str, ...] | None = None,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        super().__init__(device, dtype)
        graph = Graph()
        rows = {name: input_rows(graph, name, count) for name, count in inputs.items()}
        made = {name: output_rows(graph, name, array) for name, array in function(**rows).items()}
        if set(made) & set(inputs):
            raise ValueError(f"{sorted(set(made) & set(inputs))} are inputs; outputs need names of their own")
        if not set(wanted or ()) <= set(inputs):
            raise ValueError(f"{sorted(set(wanted or ()) - set(inputs))} are no inputs; inputs: {sorted(inputs)}")
        results = made if wanted is None else _reverse(graph, made, rows, wanted)
        self.inputs = dict(inputs)
        if wanted is not None:
            self.inputs.update({GRADIENT + name: len(array) for name, array in made.items()})
        self.outputs = {name: len(array) for name, array in results.items()}
        self._compile(graph, [(n, row, entry.node) for n, array in results.items() for row, entry in enumerate(array)])


def _reverse(
    graph: Graph, made: Mapping[str, Rows], rows: Mapping[str, Rows], wanted: tuple[str, ...]
) -> dict[str, Rows]:
    seeds: dict[int, Scalar] = {}
    for name, array in made.items():
        for row, entry in enumerate(array):
            if not graph.is_bool(entry.node):
                seed = Scalar(graph, graph.input(GRADIENT + name, row))
                seeds[entry.node] = seeds[entry.node] + seed if entry.node in seeds else seed
    targets = {name: [entry.node for entry in rows[name]] for name in wanted}
    found = gradients(graph, seeds, [node for nodes in targets.values() for node in nodes])
    none = Scalar(graph, graph.constant(0.0))
    results = {}
    for name, nodes in targets.items():
        column = np.empty(len(nodes), dtype=object)
        column[:] = [none if found[node] is None else found[node] for node in nodes]
        results[GRADIENT + name] = column
    return results
