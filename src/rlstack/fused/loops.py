"""The inner loop of a sweep, as the code generators see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rlstack.fused.graph import Graph

ITEM = "the item"
"""The name under which a graph reads the constants of the current item."""


@dataclass(frozen=True)
class Items:
    """The items over which the inner loop runs for each robot.

    Args:
        numbers: (items, k) constants of each item.
        rows: Rows per item of each array that stores separate rows for each item, item after item.
    """

    numbers: NDArray[Any]
    rows: Mapping[str, int]

    def swept(self, graph: Graph) -> set[int]:
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

    def kept(self, graph: Graph, swept: set[int], roots: Iterable[int]) -> list[int]:
        """Return the nodes that are computed once per robot and used by the items, without constants."""
        needed = {n for node in graph.schedule(roots) if node in swept for n in graph.args[node]}
        needed |= set(roots)
        return sorted(n for n in needed if n not in swept and graph.ops[n] != "const")
