"""A per-robot function compiled into one fused pass over all robots, with reverse-mode derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused.adjoint import gradients
from rlstack.fused.expression import Rows, Scalar, input_rows, output_rows
from rlstack.fused.graph import ITEM, Graph, InnerLoop
from rlstack.fused.launch import CompiledKernel

GRADIENT = "gradient of "
"""Prefix of an array's name for the derivative of the objective with respect to it."""


class Kernel(CompiledKernel):
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
            raise ValueError(f"{sorted(set(made) & set(inputs))} are inputs; outputs need other names")
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


class LoopKernel(CompiledKernel):
    """A compiled function on the rows of N robots and the constants of one item, with a loop over items per robot.

    Values that depend on the robot's rows alone are computed once per robot, whatever the number of items. Arrays and
    calls are those of :class:`Kernel`. There is no reverse mode.

    Args:
        function: Takes the item's constants (k,) first and the inputs by keyword; returns object arrays (r,) by name.
            It is written for one robot and one item, in numpy style.
        inputs: Number of rows of each input.
        constants: (items, k) constants of each item.
        per_item: Rows per item of the inputs that differ between items: such an array has items x rows rows, item
            after item, and the function sees those of its item.
        device: As for a kernel.
        dtype: As for a kernel.

    An output of r values per item is an array of items x r rows, item after item.

    Raises:
        TypeError: As for a kernel.
        ValueError: There are no items, an output has the name of an input, or the dtype is unknown.
        UserError: The device does not exist here or does not support the dtype, or its compiler is not installed.
    """

    def __init__(
        self,
        function: Callable[..., Mapping[str, Rows]],
        inputs: Mapping[str, int],
        constants: NDArray[Any],
        per_item: Mapping[str, int] | None = None,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        super().__init__(device, dtype)
        constants, per_item = np.asarray(constants, dtype=float), dict(per_item or {})
        if constants.ndim != 2 or not len(constants):
            raise ValueError(f"the items' constants have the shape {constants.shape}; (items, k) with items is needed")
        if both := sorted(set(inputs) & set(per_item)):
            raise ValueError(f"{both} are given twice, as of the robot and as of the item")
        count, size = constants.shape
        graph = Graph()
        rows = {name: input_rows(graph, name, k) for name, k in {**inputs, **per_item}.items()}
        made = {n: output_rows(graph, n, array) for n, array in function(input_rows(graph, ITEM, size), **rows).items()}
        self.items = count
        if set(made) & {*inputs, *per_item}:
            raise ValueError(f"{sorted(set(made) & {*inputs, *per_item})} are inputs; outputs need other names")
        self.inputs = {**inputs, **{name: count * k for name, k in per_item.items()}}
        of_item = {name: len(array) for name, array in made.items()}
        self.outputs = {name: count * k for name, k in of_item.items()}
        written = [(name, row, entry.node) for name, array in made.items() for row, entry in enumerate(array)]
        self._compile(graph, written, InnerLoop(constants, {**per_item, **of_item}))
