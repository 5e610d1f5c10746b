"""Reverse-mode differentiation of an expression graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlstack.fused.expression import Scalar, where
from rlstack.fused.graph import Graph


def gradients(graph: Graph, seeds: Mapping[int, Scalar], wanted: Iterable[int]) -> dict[int, Scalar | None]:
    """Return the derivative of sum(seed * node) over ``seeds`` with respect to each wanted node.

    Where two branches meet, as in a minimum, the derivative is that of the branch taken: the first of two equal ones,
    and that of x for abs(x) at 0. The derivative of a node without influence is None.
    """
    total: dict[int, Scalar] = {}

    def add(node: int, amount: Scalar) -> None:
        if graph.ops[node] != "const":
            total[node] = total[node] + amount if node in total else amount

    for node, seed in seeds.items():
        add(node, seed)
    needed = _needed(graph, seeds)
    for node in sorted(needed, reverse=True):
        if node not in total:
            continue
        seed, op = total[node], graph.ops[node]
        me, a, *rest = (Scalar(graph, n) for n in (node, *(graph.args[node] or (node,))))
        b = rest[0] if rest else a
        if op == "add":
            add(a.node, seed)
            add(b.node, seed)
        elif op == "sub":
            add(a.node, seed)
            add(b.node, -seed)
        elif op == "mul":
            add(a.node, seed * b)
            add(b.node, seed * a)
        elif op == "div":
            share = seed / b
            add(a.node, share)
            add(b.node, -(share * me))
        elif op == "neg":
            add(a.node, -seed)
        elif op == "sqrt":
            add(a.node, 0.5 * seed / me)
        elif op == "exp":
            add(a.node, seed * me)
        elif op == "log":
            add(a.node, seed / a)
        elif op == "abs":
            add(a.node, where(a < 0.0, -seed, seed))
        elif op in ("min", "max"):
            first = a <= b if op == "min" else b <= a
            add(a.node, where(first, seed, 0.0))
            add(b.node, where(first, 0.0, seed))
        elif op == "select":
            yes, no = rest
            add(yes.node, where(a, seed, 0.0))
            add(no.node, where(a, 0.0, seed))
        elif op not in ("input", "const", "floor"):
            raise TypeError(f"'{op}' has no derivative")
    return {node: total.get(node) for node in wanted}


def _needed(graph: Graph, roots: Iterable[int]) -> set[int]:
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        # booleans select a branch and have no derivative
        waiting += [n for n in graph.args[node] if not graph.is_bool(n)]
    return found
