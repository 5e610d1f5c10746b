"""LLVM IR of a sweep: a SIMD loop over robots with an inner loop over items.

Values that do not depend on the item are computed before the inner loop and kept on the stack, in the L1 cache, from
where most instructions load an operand for free.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.fused.graph import Graph
from rlstack.fused.loops import ITEM, Items
from rlstack.fused.simd import Writer


class SweepWriter(Writer):
    """Writes ``kernel(table, count)`` as :class:`Writer` does; after the arrays the table holds the items' constants.

    Args:
        graph: Holds the expressions of one item.
        arrays: Names of all arrays in the order of the table.
        outputs: (array, row, node) of every value written for one item.
        lanes: Robots at a time.
        dtype: ``"float32"`` or ``"float64"``.
        items: The inner loop.
    """

    def __init__(
        self,
        graph: Graph,
        arrays: Sequence[str],
        outputs: Sequence[tuple[str, int, int]],
        lanes: int,
        dtype: str,
        items: Items,
    ) -> None:
        super().__init__(graph, arrays, outputs, lanes, dtype)
        self.items = items
        self.swept = items.swept(graph)
        self.inside = False
        self.kept: dict[int, int] = {}
        self.loaded: set[int] = set()

    def text(self) -> str:
        """Return the module's text."""
        graph, items = self.graph, self.items
        kept = items.kept(graph, self.swept, [node for _, _, node in self.outputs])
        # booleans stay in registers
        self.kept = {node: k for k, node in enumerate(n for n in kept if not graph.is_bool(n))}
        for node in graph.schedule(kept):
            self._write(node)
            if node in self.kept:
                self.lines += [
                    f"%k{node} = getelementptr {self.float}, ptr %kept, i64 {self.kept[node]}",
                    f"store {self.float} {super()._value(node)}, ptr %k{node}, align {self._width()}",
                ]
        before, self.lines, self.inside = self.lines, [], True
        wanted: dict[int, list[tuple[str, int]]] = {}
        for array, row, node in self.outputs:
            if node in self.swept:
                wanted.setdefault(node, []).append((array, row))
            else:
                self._store(array, row, node)
        for node in (n for n in graph.schedule(wanted) if n in self.swept):
            self._write(node)
            for array, row in wanted.get(node, ()):
                self._store(array, row, node)
        count, size = items.numbers.shape
        outer = {key: name for key, name in self.rows.items() if key[0] not in items.rows}
        head = [*self._head(), f"%numbersp = getelementptr i64, ptr %table, i64 {2 * len(self.index)}"]
        head += ["%numbers = load ptr, ptr %numbersp, align 8"]
        head.append(f"%kept = alloca [{max(1, len(self.kept))} x {self.float}], align {self._width()}")
        inner = [f"%item = mul i64 %s, {size}", f"%items = getelementptr {self.element}, ptr %numbers, i64 %item"]
        for name in sorted({array for array, _ in self.rows if array in items.rows}):
            k = self.index[name]
            inner += [
                f"%ahead{k} = mul i64 %s{k}, {items.rows[name]}",
                f"%skip{k} = mul i64 %ahead{k}, %s",
                f"%along{k} = add i64 %skip{k}, %i",
                f"%now{k} = getelementptr {self.element}, ptr %b{k}, i64 %along{k}",
            ]
        inner += [
            f"%{name} = getelementptr {self.element}, ptr %now{self.index[array]}, i64 %o.{name}"
            for (array, _), name in self.rows.items()
            if array in items.rows
        ]
        parts = [
            "define void @kernel(ptr %table, i64 %count) {",
            "entry:",
            *head,
            f"%last = sub i64 %count, {self.lanes}",
            "br label %loop",
            "loop:",
            "%i = phi i64 [0, %entry], [%next, %end]",
            *(f"%{name} = getelementptr {self.element}, ptr %r.{name}, i64 %i" for name in outer.values()),
            *before,
            "br label %sweep",
            "sweep:",
            "%s = phi i64 [0, %loop], [%further, %sweep]",
            *inner,
            *self.lines,
            "%further = add i64 %s, 1",
            f"%furthermore = icmp slt i64 %further, {count}",
            "br i1 %furthermore, label %sweep, label %end",
            "end:",
            *self._next(),
            "br i1 %more, label %loop, label %done",
            "done:",
            "ret void",
            "}",
            *self._declared(),
        ]
        return "\n".join(parts) + "\n"

    def _write(self, node: int) -> None:
        if self.graph.ops[node] != "input" or self.graph.values[node][0] != ITEM:
            super()._write(node)
            return
        place = self._new(f"getelementptr {self.element}, ptr %items, i64 {self.graph.values[node][1]}")
        number = f"load {self.element}, ptr {place}, align {self.align}"
        if self.double:
            self.lines.append(f"%n{node} = {number}")
            return
        first = self._new(f"insertelement {self.float} poison, float {self._new(number)}, i64 0")
        self.lines.append(
            f"%n{node} = shufflevector {self.float} {first}, {self.float} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def _value(self, node: int) -> str:
        if not self.inside or node not in self.kept:
            return super()._value(node)
        if node not in self.loaded:
            self.loaded.add(node)
            self.lines.append(f"%m{node} = load {self.float}, ptr %k{node}, align {self._width()}")
        return f"%m{node}"

    def _width(self) -> int:
        return self.align * self.lanes
