"""Inputs and outputs of a per-robot function that is traced with expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused.expression import Scalar
from rlstack.fused.graph import Graph

Rows = NDArray[Any]
"""An object array (rows,) of expressions."""


def input_rows(graph: Graph, name: str, count: int) -> Rows:
    """Return the expressions of an input array's rows."""
    made = [Scalar(graph, graph.input(name, row)) for row in range(count)]
    found = np.empty(count, dtype=object)
    found[:] = made
    return found


def output_rows(graph: Graph, name: str, array: Any) -> Rows:
    """Return the output ``name`` of a function as expressions.

    Raises:
        TypeError: It is not an array of one robot's values, or belongs to another function.
    """
    rows = np.atleast_1d(np.array(array, dtype=object))
    if rows.ndim != 1:
        raise TypeError(f"the function's '{name}' has the shape {rows.shape}; (rows,) is needed: one robot's numbers")
    for row, entry in enumerate(rows):
        if isinstance(entry, np.ndarray) and entry.ndim == 0:
            rows[row] = entry = entry[()]
        if isinstance(entry, Scalar):
            if entry.graph is not graph:
                raise TypeError(f"the function's '{name}' holds an expression of another function")
        elif isinstance(entry, (bool, int, float, np.generic)):
            rows[row] = Scalar(graph, graph.constant(float(entry)))
        else:
            raise TypeError(f"the function's '{name}' holds a {type(entry).__name__}, neither expression nor number")
    return rows
