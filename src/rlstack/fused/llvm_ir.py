"""LLVM IR of an expression graph: a SIMD loop over robots, and an inner loop over items if there is one.

Loop-invariant values are computed before the inner loop and kept on the stack, in the L1 cache, from where most
instructions load an operand for free.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rlstack.fused.graph import ITEM, Graph, InnerLoop

_FLAGS = {"float32": "nsz arcp contract afn reassoc", "float64": "nsz contract reassoc"}
"""Fast-math flags: reordering and fused multiply-add are allowed; NaN and infinity are preserved.

The exception, in single precision: the fast 1 / sqrt(x) of some processors gives NaN at 0 and at infinity.
"""

_INFIX = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARE = {"lt": "olt", "le": "ole", "eq": "oeq"}
_INTRINSIC = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor"}

# S. Moshier, Cephes mathematical library, single precision
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Polynomial for (exp(r) - 1 - r) / r^2, abs(r) <= ln(2)/2, highest power first."""
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
"""Polynomial for (log(1 + r) - r + r^2 / 2) / r^3, sqrt(1/2) <= 1 + r <= sqrt(2), highest power first."""

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_EXP_LOW, _EXP_HIGH = -86.98, 88.7228
"""Range of exp's argument: below, exp (1.7e-38) counts as 0; above, it is infinite."""


class IrWriter:
    """Writes one function, ``kernel(table, count)``, for ``count >= lanes`` robots.

    The table holds the address of each array, then each array's row stride in floats, then the address of the inner
    loop's constants, if there is one.

    Args:
        graph: Holds the expressions, of one item if there is an inner loop.
        arrays: Names of all arrays in the order of the table.
        outputs: (array, row, node) of every value written.
        lanes: Robots computed at a time; 1 in double precision.
        dtype: ``"float32"`` or ``"float64"``.
        loop: The inner loop.
    """

    def __init__(
        self,
        graph: Graph,
        arrays: Sequence[str],
        outputs: Sequence[tuple[str, int, int]],
        lanes: int,
        dtype: str = "float32",
        loop: InnerLoop | None = None,
    ) -> None:
        if dtype == "float64" and lanes != 1:
            raise ValueError(f"{lanes} robots at a time are not written in double precision: 1 is")
        self.graph, self.outputs, self.lanes, self.loop = graph, outputs, lanes, loop
        self.double, self.flags = dtype == "float64", _FLAGS[dtype]
        self.index = {name: k for k, name in enumerate(arrays)}
        self.float, self.bool, self.int = f"<{lanes} x float>", f"<{lanes} x i1>", f"<{lanes} x i32>"
        self.element, self.suffix, self.align = "float", f"v{lanes}f32", 4
        if self.double:
            # plain scalars, no vectors: a single robot needs no padding, and exp and log are the C library's
            self.float, self.bool, self.element, self.suffix, self.align = "double", "i1", "double", "f64", 8
        self.lines: list[str] = []
        self.rows: dict[tuple[str, int], str] = {}
        self.temporaries = 0
        self.invariant: dict[int, int] = {}
        """Place on the stack of each loop-invariant number that the inner loop reads."""
        self.loaded: set[int] | None = None
        """Those that the inner loop has loaded; None before it."""

    def text(self) -> str:
        """Return the module's text."""
        head, body = self._plain_body() if self.loop is None else self._loop_body(self.loop)
        parts = [
            "define void @kernel(ptr %table, i64 %count) {",
            "entry:",
            *head,
            f"%last = sub i64 %count, {self.lanes}",
            "br label %loop",
            "loop:",
            *body,
            # the last block overlaps the one before it if the count is not a multiple of the lanes
            f"%after = add i64 %i, {self.lanes}",
            "%more = icmp slt i64 %i, %last",
            "%over = icmp sgt i64 %after, %last",
            "%next = select i1 %over, i64 %last, i64 %after",
            "br i1 %more, label %loop, label %done",
            "done:",
            "ret void",
            "}",
            *self._declared(),
        ]
        return "\n".join(parts) + "\n"

    def _plain_body(self) -> tuple[list[str], list[str]]:
        """Return the lines before the loop over robots, and its body."""
        wanted: dict[int, list[tuple[str, int]]] = {}
        for array, row, node in self.outputs:
            wanted.setdefault(node, []).append((array, row))
        self._compute(self.graph.schedule(wanted), wanted)
        return self._head(), ["%i = phi i64 [0, %entry], [%next, %loop]", *self._robot_rows(self.rows), *self.lines]

    def _loop_body(self, loop: InnerLoop) -> tuple[list[str], list[str]]:
        """Return the lines before the loop over robots, and its body with the inner loop."""
        graph, varying = self.graph, loop.varying(self.graph)
        invariant = loop.invariant(graph, varying, [node for _, _, node in self.outputs])
        # booleans stay in registers
        self.invariant = {node: k for k, node in enumerate(n for n in invariant if not graph.is_bool(n))}
        width = self.align * self.lanes
        for node in graph.schedule(invariant):
            self._write(node)
            if node in self.invariant:
                self.lines += [
                    f"%k{node} = getelementptr {self.float}, ptr %kept, i64 {self.invariant[node]}",
                    f"store {self.float} {self._value(node)}, ptr %k{node}, align {width}",
                ]
        before, self.lines, self.loaded = self.lines, [], set()
        wanted: dict[int, list[tuple[str, int]]] = {}
        for array, row, node in self.outputs:
            if node in varying:
                wanted.setdefault(node, []).append((array, row))
            else:
                self._store(array, row, node)
        self._compute((n for n in graph.schedule(wanted) if n in varying), wanted)
        count, size = loop.constants.shape
        head = [*self._head(), f"%numbersp = getelementptr i64, ptr %table, i64 {2 * len(self.index)}"]
        head += ["%numbers = load ptr, ptr %numbersp, align 8"]
        head.append(f"%kept = alloca [{max(1, len(self.invariant))} x {self.float}], align {width}")
        inner = [f"%item = mul i64 %s, {size}", f"%items = getelementptr {self.element}, ptr %numbers, i64 %item"]
        for name in sorted({array for array, _ in self.rows if array in loop.rows}):
            k = self.index[name]
            inner += [
                f"%ahead{k} = mul i64 %s{k}, {loop.rows[name]}",
                f"%skip{k} = mul i64 %ahead{k}, %s",
                f"%along{k} = add i64 %skip{k}, %i",
                f"%now{k} = getelementptr {self.element}, ptr %b{k}, i64 %along{k}",
            ]
        inner += [
            f"%{name} = getelementptr {self.element}, ptr %now{self.index[array]}, i64 %o.{name}"
            for (array, _), name in self.rows.items()
            if array in loop.rows
        ]
        return head, [
            "%i = phi i64 [0, %entry], [%next, %end]",
            *self._robot_rows(key for key in self.rows if key[0] not in loop.rows),
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
        ]

    def _compute(self, nodes: Iterable[int], wanted: Mapping[int, Sequence[tuple[str, int]]]) -> None:
        # results are stored as soon as they are known, to keep register pressure low
        for node in nodes:
            self._write(node)
            for array, row in wanted.get(node, ()):
                self._store(array, row, node)

    def _robot_rows(self, keys: Iterable[tuple[str, int]]) -> list[str]:
        names = (self.rows[key] for key in keys)
        return [f"%{name} = getelementptr {self.element}, ptr %r.{name}, i64 %i" for name in names]

    def _head(self) -> list[str]:
        count = len(self.index)
        head = []
        for k in self.index.values():
            head += [
                f"%b{k}p = getelementptr i64, ptr %table, i64 {k}",
                f"%b{k} = load ptr, ptr %b{k}p, align 8",
                f"%s{k}p = getelementptr i64, ptr %table, i64 {count + k}",
                f"%s{k} = load i64, ptr %s{k}p, align 8",
            ]
        for (array, row), name in self.rows.items():
            k = self.index[array]
            head += [
                f"%o.{name} = mul i64 %s{k}, {row}",
                f"%r.{name} = getelementptr {self.element}, ptr %b{k}, i64 %o.{name}",
            ]
        return head

    def _declared(self) -> list[str]:
        intrinsics = [*_INTRINSIC.values(), *(("exp", "log") if self.double else ())]
        return [f"declare {self.float} @llvm.{n}.{self.suffix}({self.float})" for n in intrinsics]

    def _store(self, array: str, row: int, node: int) -> None:
        value = self._value(node)
        if self.graph.is_bool(node):
            value = self._new(f"uitofp {self.bool} {value} to {self.float}")
        self.lines.append(f"store {self.float} {value}, ptr {self._row(array, row)}, align {self.align}")

    def _write(self, node: int) -> None:
        graph, vector = self.graph, self.float
        op = graph.ops[node]
        if op == "const":
            return
        a, *rest = [self._value(n) for n in graph.args[node]] or [""]
        if op == "input" and graph.values[node][0] == ITEM:
            line = self._item(graph.values[node][1])
        elif op == "input":
            line = f"load {vector}, ptr {self._row(*graph.values[node])}, align {self.align}"
        elif op == "div" and graph.ops[graph.args[node][1]] == "const":
            # by 0 or by a number whose reciprocal no float can represent: other divisions became products
            line = f"fdiv contract {vector} {a}, {rest[0]}"
        elif op in _INFIX:
            line = f"{_INFIX[op]} {self.flags} {vector} {a}, {rest[0]}"
        elif op == "neg":
            line = f"fneg {self.flags} {vector} {a}"
        elif op in _COMPARE:
            line = f"fcmp {_COMPARE[op]} {vector} {a}, {rest[0]}"
        elif op in ("min", "max"):
            line = self._extreme("olt" if op == "min" else "ogt", *graph.args[node])
        elif op == "select":
            line = f"select {self.bool} {a}, {vector} {rest[0]}, {vector} {rest[1]}"
        elif op in ("and", "or"):
            line = f"{op} {self.bool} {a}, {rest[0]}"
        elif op == "not":
            line = f"xor {self.bool} {a}, {self._all('i1 true')}"
        elif op in ("exp", "log") and self.double:
            line = f"call {vector} @llvm.{op}.{self.suffix}({vector} {a})"
        elif op == "exp":
            line = self._exp(a)
        elif op == "log":
            line = self._log(a)
        else:
            line = f"call {self.flags} {vector} @llvm.{_INTRINSIC[op]}.{self.suffix}({vector} {a})"
        self.lines.append(f"%n{node} = {line}")

    def _item(self, column: int) -> str:
        """Return the instruction that loads a constant of the current item for all lanes."""
        place = self._new(f"getelementptr {self.element}, ptr %items, i64 {column}")
        number = f"load {self.element}, ptr {place}, align {self.align}"
        if self.double:
            return number
        first = self._new(f"insertelement {self.float} poison, float {self._new(number)}, i64 0")
        return f"shufflevector {self.float} {first}, {self.float} poison, <{self.lanes} x i32> zeroinitializer"

    def _extreme(self, order: str, first: int, second: int) -> str:
        # the processor's instruction returns its second operand if one is NaN, so a constant comes first
        if self.graph.ops[second] == "const":
            first, second = second, first
        a, b = self._value(first), self._value(second)
        taken = self._pick(self._compare(order, a, b), a, b)
        return (
            taken if self.graph.ops[first] == "const" else self._pick(self._compare("uno", a, a), a, self._new(taken))
        )

    def _exp(self, x: str) -> str:
        low, high = self._number(_EXP_LOW), self._number(_EXP_HIGH)
        tiny, huge = self._compare("olt", x, low), self._compare("ogt", x, high)
        x = self._choose(huge, high, self._choose(tiny, low, x))
        scaled = self._float("fadd", self._float("fmul", x, self._number(_LOG2E)), self._number(0.5))
        n = self._new(f"call {self.float} @llvm.floor.{self.suffix}({self.float} {scaled})")
        r = self._float("fsub", x, self._float("fmul", n, self._number(_LN2_HIGH)))
        r = self._float("fsub", r, self._float("fmul", n, self._number(_LN2_LOW)))
        p = self._polynomial(_EXP, r)
        p = self._float("fadd", self._float("fadd", self._float("fmul", p, self._float("fmul", r, r)), r), self._one())
        # NaN has no whole part; it propagates through p
        n = self._choose(self._compare("ord", n, n), n, self._number(0.0))
        whole = self._new(f"fptosi {self.float} {n} to {self.int}")
        # 2 p times half the power of two, because the greatest power overflows a float
        bits = self._new(f"add {self.int} {whole}, {self._all('i32 126')}")
        bits = self._new(f"shl {self.int} {bits}, {self._all('i32 23')}")
        power = self._new(f"bitcast {self.int} {bits} to {self.float}")
        result = self._float("fmul", self._float("fadd", p, p), power)
        return self._pick(huge, self._number(np.inf), self._choose(tiny, self._number(0.0), result))

    def _log(self, x: str) -> str:
        # the exponent bits of subnormal floats do not hold the exponent
        small = self._compare("olt", x, self._number(1.1754944e-38))
        scaled = self._choose(small, self._float("fmul", x, self._number(2.0**23)), x)
        bits = self._new(f"bitcast {self.float} {scaled} to {self.int}")
        # mantissa in [sqrt(1/2), sqrt(2)), exponent to match
        moved = self._new(f"sub {self.int} {bits}, {self._all(f'i32 {0x3F3504F3}')}")
        exponent = self._new(f"ashr {self.int} {moved}, {self._all('i32 23')}")
        shift = self._new(f"shl {self.int} {exponent}, {self._all('i32 23')}")
        mantissa = self._new(f"sub {self.int} {bits}, {shift}")
        r = self._float("fsub", self._new(f"bitcast {self.int} {mantissa} to {self.float}"), self._one())
        e = self._new(f"sitofp {self.int} {exponent} to {self.float}")
        e = self._float("fsub", e, self._choose(small, self._number(23.0), self._number(0.0)))
        square = self._float("fmul", r, r)
        y = self._float("fmul", self._float("fmul", self._polynomial(_LOG, r), r), square)
        y = self._float("fadd", y, self._float("fmul", e, self._number(_LN2_LOW)))
        y = self._float("fsub", y, self._float("fmul", square, self._number(0.5)))
        y = self._float("fadd", self._float("fadd", y, r), self._float("fmul", e, self._number(_LN2_HIGH)))
        # infinity and NaN are kept; 0 gives minus infinity, negative values NaN
        y = self._choose(self._compare("ult", x, self._number(np.inf)), y, x)
        y = self._choose(self._compare("olt", x, self._number(0.0)), self._number(np.nan), y)
        y = self._choose(self._compare("uno", x, x), x, y)
        return self._pick(self._compare("oeq", x, self._number(0.0)), self._number(-np.inf), y)

    def _polynomial(self, coefficients: Sequence[float], x: str) -> str:
        p = self._number(coefficients[0])
        for c in coefficients[1:]:
            p = self._float("fadd", self._float("fmul", p, x), self._number(c))
        return p

    def _float(self, op: str, a: str, b: str) -> str:
        # reordering would cost exp and log their precision
        return self._new(f"{op} contract {self.float} {a}, {b}")

    def _compare(self, order: str, a: str, b: str) -> str:
        return self._new(f"fcmp {order} {self.float} {a}, {b}")

    def _choose(self, condition: str, yes: str, no: str) -> str:
        return self._new(self._pick(condition, yes, no))

    def _pick(self, condition: str, yes: str, no: str) -> str:
        return f"select {self.bool} {condition}, {self.float} {yes}, {self.float} {no}"

    def _new(self, line: str) -> str:
        self.temporaries += 1
        name = f"%t{self.temporaries}"
        self.lines.append(f"{name} = {line}")
        return name

    def _value(self, node: int) -> str:
        if self.loaded is not None and node in self.invariant:
            if node not in self.loaded:
                self.loaded.add(node)
                width = self.align * self.lanes
                self.lines.append(f"%m{node} = load {self.float}, ptr %k{node}, align {width}")
            return f"%m{node}"
        return self._number(self.graph.values[node]) if self.graph.ops[node] == "const" else f"%n{node}"

    def _row(self, array: str, row: int) -> str:
        return "%" + self.rows.setdefault((array, row), f"p{len(self.rows)}")

    def _one(self) -> str:
        return self._number(1.0)

    def _number(self, value: float) -> str:
        if not self.double:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        # LLVM IR writes a float as the bits of the double of the same value
        return self._all(f"{self.element} 0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}")

    def _all(self, value: str) -> str:
        return value.partition(" ")[2] if self.double else f"splat ({value})"
