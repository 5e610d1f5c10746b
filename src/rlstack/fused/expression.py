"""Scalar expressions: what a per-robot function computes, as a graph without repetitions.

A function written in numpy style is called with object arrays of :class:`Scalar` instead of floats; numpy's own
indexing, broadcasting, sums and products then build the graph. Equal expressions are one node, constants fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

Number: TypeAlias = Union[int, float, "Scalar"]

UNARY: dict[str, Callable[[float], float]] = {
    "neg": lambda a: -a,
    "sqrt": lambda a: math.sqrt(a) if a >= 0.0 else math.nan,
    "exp": lambda a: math.exp(a) if a < 700.0 else math.inf,
    "log": lambda a: math.log(a) if a > 0.0 else math.nan,
    "abs": abs,
    "floor": lambda a: float(math.floor(a)),
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b != 0.0 else math.nan if a == 0.0 else math.copysign(math.inf, a),
    "min": min,
    "max": max,
}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
}
LOGIC = ("and", "or", "not")


class Graph:
    """Nodes in an order in which every node comes after what it needs."""

    def __init__(self) -> None:
        self.ops: list[str] = []
        self.args: list[tuple[int, ...]] = []
        self.values: list[Any] = []
        """The number of a ``const``, the (array, row) of an ``input``; None elsewhere."""
        self._known: dict[tuple[str, tuple[int, ...], Any], int] = {}

    def __len__(self) -> int:
        return len(self.ops)

    def node(self, op: str, args: tuple[int, ...] = (), value: Any = None) -> int:
        """Return the number of the node, which is made if there is none like it."""
        if op in ("add", "mul", "min", "max", "eq", "and", "or") and args[0] > args[1]:
            args = (args[1], args[0])
        # the sign of zero and the type of a number are part of what it is
        key = (op, args, repr(value) if op == "const" else value)
        found = self._known.get(key)
        if found is None:
            found = len(self.ops)
            self.ops.append(op)
            self.args.append(args)
            self.values.append(value)
            self._known[key] = found
        return found

    def constant(self, value: float) -> int:
        """Return the node of a number."""
        return self.node("const", (), float(value))

    def input(self, array: str, row: int) -> Scalar:
        """Return a row of an input array."""
        return Scalar(self, self.node("input", (), (array, row)))

    def number(self, node: int) -> float | None:
        """Return the number that a node always is, or None."""
        return self.values[node] if self.ops[node] == "const" else None

    def apply(self, op: str, *args: int) -> int:
        """Return the node of an operation, simplified where that needs no thought."""
        numbers = [self.number(a) for a in args]
        if all(n is not None for n in numbers) and op not in ("select", *COMPARISONS, *LOGIC):
            function: Any = UNARY.get(op) or BINARY.get(op)
            return self.constant(function(*numbers))
        if op == "add":
            if numbers[0] == 0.0:
                return args[1]
            if numbers[1] == 0.0:
                return args[0]
            if self.ops[args[1]] == "neg":
                return self.apply("sub", args[0], self.args[args[1]][0])
            if self.ops[args[0]] == "neg":
                return self.apply("sub", args[1], self.args[args[0]][0])
        elif op == "sub":
            if numbers[1] == 0.0:
                return args[0]
            if numbers[0] == 0.0:
                return self.apply("neg", args[1])
            if self.ops[args[1]] == "neg":
                return self.apply("add", args[0], self.args[args[1]][0])
        elif op == "mul":
            for a, n in zip(args, numbers):
                other = args[1] if a == args[0] else args[0]
                if n == 0.0:  # whatever the other is: what is not finite is looked for in the state, not here
                    return self.constant(0.0)
                if n == 1.0:
                    return other
                if n == -1.0:
                    return self.apply("neg", other)
        elif op == "div":
            if numbers[1] is not None and numbers[1] != 0.0:
                return self.apply("mul", args[0], self.constant(1.0 / numbers[1]))
            if numbers[0] == 0.0:
                return self.constant(0.0)
        elif op == "neg" and self.ops[args[0]] == "neg":
            return self.args[args[0]][0]
        elif op == "select" and args[1] == args[2]:
            return args[1]
        elif op in ("and", "or") and args[0] == args[1]:
            return args[0]
        elif op == "not" and self.ops[args[0]] == "not":
            return self.args[args[0]][0]
        return self.node(op, args)

    def is_bool(self, node: int) -> bool:
        """Return whether a node is true or false rather than a number."""
        return self.ops[node] in COMPARISONS or self.ops[node] in LOGIC


class Scalar:
    """One number, or one truth value, of the graph."""

    __slots__ = ("graph", "node")

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node = graph, node

    def _of(self, other: Number) -> int:
        return other.node if isinstance(other, Scalar) else self.graph.constant(float(other))

    def _binary(self, op: str, other: Number, swap: bool = False) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a, b = self.node, self._of(other)
        return Scalar(self.graph, self.graph.apply(op, b, a) if swap else self.graph.apply(op, a, b))

    def _unary(self, op: str) -> Scalar:
        return Scalar(self.graph, self.graph.apply(op, self.node))

    def __add__(self, other: Number) -> Scalar:
        return self._binary("add", other)

    def __radd__(self, other: Number) -> Scalar:
        return self._binary("add", other)

    def __sub__(self, other: Number) -> Scalar:
        return self._binary("sub", other)

    def __rsub__(self, other: Number) -> Scalar:
        return self._binary("sub", other, swap=True)

    def __mul__(self, other: Number) -> Scalar:
        return self._binary("mul", other)

    def __rmul__(self, other: Number) -> Scalar:
        return self._binary("mul", other)

    def __truediv__(self, other: Number) -> Scalar:
        return self._binary("div", other)

    def __rtruediv__(self, other: Number) -> Scalar:
        return self._binary("div", other, swap=True)

    def __neg__(self) -> Scalar:
        return self._unary("neg")

    def __abs__(self) -> Scalar:
        return self._unary("abs")

    def __lt__(self, other: Number) -> Scalar:
        return self._binary("lt", other)

    def __le__(self, other: Number) -> Scalar:
        return self._binary("le", other)

    def __gt__(self, other: Number) -> Scalar:
        return self._binary("lt", other, swap=True)

    def __ge__(self, other: Number) -> Scalar:
        return self._binary("le", other, swap=True)

    def equals(self, other: Number) -> Scalar:
        """Return whether both are the same number."""
        return self._binary("eq", other)

    def __and__(self, other: Scalar) -> Scalar:
        return self._binary("and", other)

    def __or__(self, other: Scalar) -> Scalar:
        return self._binary("or", other)

    def __invert__(self) -> Scalar:
        return self._unary("not")

    def __pow__(self, power: int) -> Scalar:
        if power == 2:
            return self * self
        if power == 0.5:
            return self.sqrt()
        raise TypeError(f"the power {power} is not known here: 2 and 0.5 are")

    def __bool__(self) -> bool:
        raise TypeError("what a fused function does cannot depend on a value: use fused.where instead of `if`")

    # numpy calls these for np.sqrt and the like on object arrays
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
        """Next whole number below."""
        return self._unary("floor")

    def tanh(self) -> Scalar:
        """Hyperbolic tangent."""
        twice = (2.0 * minimum(self, 15.0)).exp()
        return (twice - 1.0) / (twice + 1.0)

    def sigmoid(self) -> Scalar:
        """Logistic function."""
        return 1.0 / (1.0 + (-self).exp())


Array = NDArray[Any]


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if not isinstance(condition, Scalar):
        return yes if condition else no
    graph = condition.graph
    a, b = (v.node if isinstance(v, Scalar) else graph.constant(float(v)) for v in (yes, no))
    return Scalar(graph, graph.apply("select", condition.node, a, b))


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
    """Return ``yes`` where the condition holds and ``no`` elsewhere; for expressions and for plain arrays."""
    return _WHERE(condition, yes, no) if _symbolic(condition, yes, no) else np.where(condition, yes, no)


def minimum(a: Any, b: Any) -> Any:
    """Return the lesser of two, for expressions and for plain arrays."""
    return _MINIMUM(a, b) if _symbolic(a, b) else np.minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the greater of two, for expressions and for plain arrays."""
    return _MAXIMUM(a, b) if _symbolic(a, b) else np.maximum(a, b)


def greater(a: Any, b: Any) -> Any:
    """Return whether one is greater than the other, for expressions and for plain arrays.

    numpy's own ``>`` would ask the expressions for their truth, which they do not have.
    """
    return np.greater(a, b, dtype=object) if _symbolic(a, b) else np.greater(a, b)


def clip(a: Any, low: Any, high: Any) -> Any:
    """Return ``a`` held between two bounds, for expressions and for plain arrays."""
    return minimum(maximum(a, low), high)
