"""Scalar expressions that trace functions written in numpy style.

The function is called with object arrays of expressions instead of floats; numpy's own indexing, broadcasting, sums
and products then build the :class:`~rlstack.fused.graph.Graph`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from rlstack.fused.graph import BINARY, Graph

Number: TypeAlias = Union[int, float, "Scalar"]

Rows = NDArray[Any]
"""An object array (rows,) of expressions."""


def _operator(op: str, swap: bool = False) -> Callable[[Scalar, Number], Scalar]:
    def method(self: Scalar, other: Number) -> Scalar:
        return self._binary(op, other, swap)

    return method


class Scalar:
    """One number or boolean of the graph."""

    __slots__ = ("graph", "node")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node = graph, node

    def _of(self, other: Number) -> int:
        if isinstance(other, (bool, np.bool_)):
            return self.graph.truth(bool(other))
        if not isinstance(other, Scalar):
            return self.graph.constant(float(other))
        if other.graph is not self.graph:
            raise TypeError("an expression of one fused function was used in another")
        return other.node

    def _binary(self, op: str, other: Number, swap: bool = False) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a, b = self.node, self._of(other)
        return Scalar(self.graph, self.graph.apply(op, b, a) if swap else self.graph.apply(op, a, b))

    def _unary(self, op: str) -> Scalar:
        return Scalar(self.graph, self.graph.apply(op, self.node))

    __add__ = __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swap=True)
    __mul__ = __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", swap=True)
    __lt__, __gt__ = _operator("lt"), _operator("lt", swap=True)
    __le__, __ge__ = _operator("le"), _operator("le", swap=True)
    __eq__ = _operator("eq")  # type: ignore[assignment]
    __and__ = __rand__ = _operator("and")
    __or__ = __ror__ = _operator("or")

    def __ne__(self, other: Number) -> Scalar:  # type: ignore[override]
        return ~self._binary("eq", other)

    def __neg__(self) -> Scalar:
        return self._unary("neg")

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Scalar:
        return self._unary("abs")

    def __invert__(self) -> Scalar:
        return self._unary("not")

    def __pow__(self, power: float) -> Scalar:
        if power == 0.5:
            return self.sqrt()
        if power != int(power) or abs(power) > 64:
            raise TypeError(f"the power {power} is not known here: whole numbers up to 64, and 0.5, are")
        if power < 0:
            positive: Scalar = self ** (-power)
            return 1.0 / positive
        result, square, rest = Scalar(self.graph, self.graph.constant(1.0)), self, int(power)
        while rest:
            if rest & 1:
                result = result * square
            rest >>= 1
            square = square * square if rest else square
        return result

    def __bool__(self) -> bool:
        raise TypeError(
            "what a fused function does cannot depend on a value: use fused.where instead of `if`, and fused.greater,"
            " fused.minimum, ... instead of numpy's between arrays"
        )

    def __float__(self) -> float:
        raise TypeError("an expression of a fused function has no value yet: keep its arrays of dtype object")

    # np.sqrt and similar functions call these on object arrays
    def sqrt(self) -> Scalar:
        """Square root."""
        return self._unary("sqrt")

    def exp(self) -> Scalar:
        """Exponential."""
        return self._unary("exp")

    def log(self) -> Scalar:
        """Natural logarithm."""
        return self._unary("log")

    def floor(self) -> Scalar:
        """Round down to a whole number."""
        return self._unary("floor")

    __floor__ = floor

    def __ceil__(self) -> Scalar:
        return -(-self).floor()

    def tanh(self) -> Scalar:
        """Hyperbolic tangent, with an absolute error of about 1e-7, or 2e-16 in double precision."""
        twice = (2.0 * self._binary("min", 20.0)).exp()
        return (twice - 1.0) / (twice + 1.0)

    def sigmoid(self) -> Scalar:
        """Logistic function."""
        # clamped where the result is 0 anyway: an infinite exponential times a derivative of 0 would be NaN
        return 1.0 / (1.0 + (-self)._binary("min", 80.0).exp())


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if not isinstance(condition, Scalar):
        return yes if condition else no
    graph = condition.graph
    return Scalar(graph, graph.apply("select", condition.node, condition._of(yes), condition._of(no)))


def _extreme(op: str) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        if isinstance(a, Scalar):
            return a._binary(op, b)
        return b._binary(op, a) if isinstance(b, Scalar) else BINARY[op](a, b)

    return function


_WHERE = np.frompyfunc(_where, 3, 1)
_MINIMUM, _MAXIMUM = np.frompyfunc(_extreme("min"), 2, 1), np.frompyfunc(_extreme("max"), 2, 1)


def _symbolic(*values: Any) -> bool:
    return any(isinstance(v, Scalar) or (isinstance(v, np.ndarray) and v.dtype == object) for v in values)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` where the condition holds and ``no`` elsewhere, for expressions and plain arrays."""
    return _WHERE(condition, yes, no) if _symbolic(condition, yes, no) else np.where(condition, yes, no)


def minimum(a: Any, b: Any) -> Any:
    """Return the lesser of two expressions or plain arrays; NaN propagates."""
    return _MINIMUM(a, b) if _symbolic(a, b) else np.minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the greater of two expressions or plain arrays; NaN propagates."""
    return _MAXIMUM(a, b) if _symbolic(a, b) else np.maximum(a, b)


def greater(a: Any, b: Any) -> Any:
    """Return whether ``a`` is greater than ``b``, for expressions and plain arrays.

    numpy's own ``>`` would evaluate the expressions as booleans, which is impossible while tracing.
    """
    return np.greater(a, b, dtype=object) if _symbolic(a, b) else np.greater(a, b)


def clip(a: Any, low: Any, high: Any) -> Any:
    """Return ``a`` clipped to two bounds, for expressions and plain arrays.

    The derivative is that of ``a`` up to and including the bounds, and that of the bounds beyond.
    """
    return minimum(maximum(a, low), high)


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
