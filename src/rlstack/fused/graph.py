"""The scalar expression graph of a per-robot function, with common subexpressions merged and constants folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNARY: dict[str, Callable[[float], Any]] = {
    "neg": np.negative,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "abs": np.abs,
    "floor": np.floor,
}
BINARY: dict[str, Callable[[float, float], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
COMPARISONS = ("lt", "le", "eq")
LOGIC = ("and", "or", "not")

ITEM = "the item"
"""Name of the input array that holds the constants of an inner loop's current item."""

_SYMMETRIC = ("add", "mul", "eq", "and", "or")
_SMALLEST_NORMAL, _GREATEST = 1.1754944e-38, 3.4028235e38


class Graph:
    """Nodes in topological order: every node comes after its operands.

    A node is a number (float32 in the compiled code) or, for :data:`COMPARISONS` and :data:`LOGIC`, a boolean.
    """

    def __init__(self) -> None:
        self.ops: list[str] = []
        self.args: list[tuple[int, ...]] = []
        self.values: list[Any] = []
        """The value of a ``const``, the (array, row) of an ``input``, else None."""
        self._known: dict[tuple[str, tuple[int, ...], Any], int] = {}
        self._truths: dict[int, bool] = {}

    def __len__(self) -> int:
        return len(self.ops)

    def constant(self, value: float) -> int:
        """Return the node of a number."""
        return self._node("const", (), float(value))

    def truth(self, value: bool) -> int:
        """Return the node of a constant boolean."""
        zero, one = self.constant(0.0), self.constant(1.0)
        node = self._node("lt", (zero, one) if value else (one, zero))
        self._truths[node] = value
        return node

    def input(self, array: str, row: int) -> int:
        """Return the node of a row of an input array."""
        return self._node("input", (), (array, row))

    def apply(self, op: str, *args: int) -> int:
        """Return the node of an operation, simplified where that is trivial.

        A boolean used as a number counts as 1 or 0.

        Raises:
            TypeError: A number is used where a boolean is needed.
        """
        if op in LOGIC:
            self._need_truth(args, op)
            return self._logic(op, *args)
        if op == "select":
            return self._select(*args)
        args = tuple(self._number(a) for a in args)
        known = self._fold(op, args) if op not in COMPARISONS else None
        return self._node(op, args) if known is None else known

    def is_bool(self, node: int) -> bool:
        """Return whether a node is a boolean."""
        return self.ops[node] in COMPARISONS or self.ops[node] in LOGIC

    def schedule(self, roots: Iterable[int]) -> Iterator[int]:
        """Yield the roots and all that they need, once each; operands come close to their use, to save registers."""
        done: set[int] = set()
        for root in roots:
            waiting = [root]
            while waiting:
                node = waiting[-1]
                missing = [n for n in self.args[node] if n not in done] if node not in done else []
                if missing:
                    waiting += reversed(missing)
                    continue
                waiting.pop()
                if node not in done:
                    done.add(node)
                    yield node

    def _node(self, op: str, args: tuple[int, ...] = (), value: Any = None) -> int:
        if op in _SYMMETRIC and args[0] > args[1]:
            args = (args[1], args[0])
        # 0.0 and -0.0 are different constants
        key = (op, args, repr(value) if op == "const" else value)
        found = self._known.get(key)
        if found is None:
            found = len(self.ops)
            self.ops.append(op)
            self.args.append(args)
            self.values.append(value)
            self._known[key] = found
        return found

    def _constant_of(self, node: int) -> float | None:
        return self.values[node] if self.ops[node] == "const" else None

    def _number(self, node: int) -> int:
        if not self.is_bool(node):
            return node
        if node in self._truths:
            return self.constant(float(self._truths[node]))
        return self._node("select", (node, self.constant(1.0), self.constant(0.0)))

    def _need_truth(self, nodes: Iterable[int], op: str) -> None:
        if not all(self.is_bool(n) for n in nodes):
            raise TypeError(f"'{op}' needs truth values, such as a comparison gives; got a number")

    def _logic(self, op: str, a: int, b: int | None = None) -> int:
        if b is None:
            if a in self._truths:
                return self.truth(not self._truths[a])
            return self.args[a][0] if self.ops[a] == "not" else self._node("not", (a,))
        for known, other in ((self._truths.get(a), b), (self._truths.get(b), a)):
            if known is not None:
                return other if known == (op == "and") else self.truth(known)
        return a if a == b else self._node(op, (a, b))

    def _select(self, condition: int, yes: int, no: int) -> int:
        self._need_truth((condition,), "where")
        if condition in self._truths:
            return yes if self._truths[condition] else no
        if yes == no:
            return yes
        if self.is_bool(yes) and self.is_bool(no):
            taken = self._logic("and", condition, yes)
            return self._logic("or", taken, self._logic("and", self._logic("not", condition), no))
        return self._node("select", (condition, self._number(yes), self._number(no)))

    def _fold(self, op: str, args: tuple[int, ...]) -> int | None:
        a, b = self._constant_of(args[0]), self._constant_of(args[-1])
        if a is not None and b is not None:
            with np.errstate(all="ignore"):
                return self.constant(float(UNARY[op](a) if op in UNARY else BINARY[op](a, b)))
        if op == "neg":
            return self.args[args[0]][0] if self.ops[args[0]] == "neg" else None
        rule = getattr(self, f"_fold_{op}", None)
        known: int | None = rule(*args, a, b) if rule else None
        return known

    def _fold_add(self, left: int, right: int, a: float | None, b: float | None) -> int | None:
        if a == 0.0:
            return right
        if b == 0.0:
            return left
        if self.ops[right] == "neg":
            return self.apply("sub", left, self.args[right][0])
        if self.ops[left] == "neg":
            return self.apply("sub", right, self.args[left][0])
        return None

    def _fold_sub(self, left: int, right: int, a: float | None, b: float | None) -> int | None:
        if b == 0.0:
            return left
        if a == 0.0:
            return self.apply("neg", right)
        if self.ops[right] == "neg":
            return self.apply("add", left, self.args[right][0])
        return None

    def _fold_mul(self, left: int, right: int, a: float | None, b: float | None) -> int | None:
        for number, other in ((a, right), (b, left)):
            if number == 0.0:  # whatever the other is: the state is checked for non-finite values elsewhere
                return self.constant(0.0)
            if number == 1.0:
                return other
            if number == -1.0:
                return self.apply("neg", other)
        return None

    def _fold_div(self, left: int, right: int, a: float | None, b: float | None) -> int | None:
        if b is not None and b != 0.0 and _SMALLEST_NORMAL <= abs(1.0 / b) <= _GREATEST:
            return self.apply("mul", left, self.constant(1.0 / b))
        return self.constant(0.0) if a == 0.0 else None


@dataclass(frozen=True)
class InnerLoop:
    """The loop over items that is run for each robot.

    Args:
        constants: (items, k) of each item.
        rows: Rows per item of each array that stores separate rows for each item, item after item.
    """

    constants: NDArray[Any]
    rows: Mapping[str, int]

    def varying(self, graph: Graph) -> set[int]:
        """Return the nodes that differ from item to item."""
        found: set[int] = set()
        for node, args in enumerate(graph.args):
            if graph.ops[node] == "input":
                array = graph.values[node][0]
                if array == ITEM or array in self.rows:
                    found.add(node)
            elif any(a in found for a in args):
                found.add(node)
        return found

    def invariant(self, graph: Graph, varying: set[int], roots: Iterable[int]) -> list[int]:
        """Return the loop-invariant nodes that the items use, without constants; they are computed once per robot."""
        needed = {n for node in graph.schedule(roots) if node in varying for n in graph.args[node]}
        needed |= set(roots)
        return sorted(n for n in needed if n not in varying and graph.ops[n] != "const")
