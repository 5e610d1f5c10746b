"""A per-robot function of one item, such as a lidar ray, compiled for all items of all robots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused.graph import Graph
from rlstack.fused.launches import Launches
from rlstack.fused.loops import ITEM, Items
from rlstack.fused.tracing import Rows, input_rows, output_rows


class Sweep(Launches):
    """A compiled function on the rows of N robots and the constants of one item, with a loop over items per robot.

    Values that depend on the robot's rows alone are computed once per robot, whatever the number of items. Arrays and
    calls are those of :class:`~rlstack.fused.kernel.Kernel`. There is no reverse mode.

    Args:
        function: Takes the item's constants (k,) first and the inputs by keyword; returns object arrays (r,) by name.
            It is written for one robot and one item, in numpy style.
        inputs: Number of rows of each input.
        numbers: (items, k) constants of each item.
        swept: Rows per item of the inputs that differ between items: such an array has items x rows rows, item after
            item, and the function sees those of its item.
        device: Device of the arrays, ``"cpu"`` or ``"cuda:0"``.
        dtype: ``"float32"``, or on the CPU ``"float64"``, which is computed one robot at a time.

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
        numbers: NDArray[Any],
        swept: Mapping[str, int] | None = None,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        super().__init__(device, dtype)
        numbers, swept = np.asarray(numbers, dtype=float), dict(swept or {})
        if numbers.ndim != 2 or not len(numbers):
            raise ValueError(f"the items' numbers have the shape {numbers.shape}; (items, k) with items is needed")
        if set(inputs) & set(swept):
            raise ValueError(f"{sorted(set(inputs) & set(swept))} are given twice, as of the robot and as of the item")
        count, size = numbers.shape
        graph = Graph()
        rows = {name: input_rows(graph, name, k) for name, k in {**inputs, **swept}.items()}
        made = {n: output_rows(graph, n, array) for n, array in function(input_rows(graph, ITEM, size), **rows).items()}
        self.items = count
        if set(made) & {*inputs, *swept}:
            raise ValueError(f"{sorted(set(made) & {*inputs, *swept})} are inputs; outputs need names of their own")
        self.inputs = {**inputs, **{name: count * k for name, k in swept.items()}}
        of_item = {name: len(array) for name, array in made.items()}
        self.outputs = {name: count * k for name, k in of_item.items()}
        written = [(name, row, entry.node) for name, array in made.items() for row, entry in enumerate(array)]
        self._compile(graph, written, Items(numbers, {**swept, **of_item}))
