"""Machine code for the CPU: an expression graph as one SIMD loop over robots, compiled by LLVM and kept on disk."""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from rlstack.files import write_atomically
from rlstack.fused.expression import Graph

_FLAGS = "nsz arcp contract afn reassoc"
"""Of every float operation: free to reorder and to fuse multiply and add; NaN and infinity stay what they are."""

_INFIX = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARE = {"lt": "olt", "le": "ole", "eq": "oeq"}
_INTRINSIC = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor"}

_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Of exp(r) - 1 - r over r^2 for |r| <= ln(2)/2, single precision (S. Moshier, Cephes mathematical library)."""

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4


@dataclass(frozen=True)
class Processor:
    """What code is made for: LLVM's name and features of a processor, and floats in one of its registers."""

    name: str
    features: str
    lanes: int

    def machine(self) -> llvm.TargetMachine:
        """Return LLVM's code generator: a new one each time, because an engine takes it and frees it in its end."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm.Target.from_default_triple().create_target_machine(cpu=self.name, features=self.features, opt=3)


@lru_cache(maxsize=1)
def host() -> Processor:
    """Return the processor of this machine."""
    features = llvm.get_host_cpu_features()
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4
    return Processor(llvm.get_host_cpu_name(), features.flatten(), lanes)


class CompiledLoop:
    """A function of rows of float32 arrays, compiled for this processor.

    Args:
        graph: Holds the expressions.
        arrays: Names of all arrays in the order in which they are passed, inputs then outputs.
        outputs: (array, row, node) of everything that is written.
    """

    def __init__(self, graph: Graph, arrays: Sequence[str], outputs: Sequence[tuple[str, int, int]]) -> None:
        processor = host()
        machine, self.lanes = processor.machine(), processor.lanes
        self._count = len(arrays)
        text = _Writer(graph, arrays, outputs, self.lanes).text()
        key = hashlib.sha256("\n".join((llvmlite.__version__, repr(processor), text)).encode()).hexdigest()[:32]
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        self.was_cached = False
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.set_object_cache(_store(key), self._load(key))
        self._engine.finalize_object()
        address = self._engine.get_function_address("kernel")
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)(address)
        self._pack = struct.Struct(f"{2 * self._count}q").pack

    def __call__(self, addresses: Sequence[int], strides: Sequence[int], count: int) -> None:
        """Compute for ``count`` robots, at least :attr:`lanes` of them.

        Args:
            addresses: Of the first row of each array; no output may overlap an input.
            strides: Floats from one row to the next, for each array.
            count: Robots; a row holds one float for each.
        """
        self._call(self._pack(*addresses, *strides), count)

    def _load(self, key: str):  # type: ignore[no-untyped-def]
        def load(module: object) -> bytes | None:
            try:
                data = (_folder() / key).read_bytes()
            except OSError:
                return None
            if hashlib.sha256(data[32:]).digest() != data[:32]:
                return None
            self.was_cached = True
            return data[32:]

        return load


def _store(key: str):  # type: ignore[no-untyped-def]
    def store(module: object, data: bytes) -> None:
        try:
            _folder().mkdir(parents=True, exist_ok=True)
            write_atomically(_folder() / key, hashlib.sha256(data).digest() + data)
        except Exception:  # without a cache it is compiled each time
            return

    return store


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "rlstack" / "kernels"


class _Writer:
    def __init__(
        self, graph: Graph, arrays: Sequence[str], outputs: Sequence[tuple[str, int, int]], lanes: int
    ) -> None:
        self.graph, self.outputs, self.lanes = graph, outputs, lanes
        self.index = {name: k for k, name in enumerate(arrays)}
        self.float, self.bool, self.int = f"<{lanes} x float>", f"<{lanes} x i1>", f"<{lanes} x i32>"
        self.lines: list[str] = []
        self.rows: dict[tuple[str, int], str] = {}
        self.temporaries = 0

    def text(self) -> str:
        for array, row, node in self.outputs:
            self._emit(node)
            pointer = self._row(array, row)
            value = self._value(node)
            if self.graph.is_bool(node):
                value = self._new(f"uitofp {self.bool} {value} to {self.float}")
            self.lines.append(f"store {self.float} {value}, ptr {pointer}, align 4")
        count = len(self.index)
        head = []
        for name, k in self.index.items():
            head += [
                f"%b{k}p = getelementptr i64, ptr %table, i64 {k}",
                f"%b{k} = load ptr, ptr %b{k}p, align 8",
                f"%s{k}p = getelementptr i64, ptr %table, i64 {count + k}",
                f"%s{k} = load i64, ptr %s{k}p, align 8",
            ]
        for (array, row), name in self.rows.items():
            k = self.index[array]
            head += [f"%o.{name} = mul i64 %s{k}, {row}", f"%r.{name} = getelementptr float, ptr %b{k}, i64 %o.{name}"]
        places = [f"%{name} = getelementptr float, ptr %r.{name}, i64 %i" for name in self.rows.values()]
        parts = [
            "define void @kernel(ptr %table, i64 %count) {",
            "entry:",
            *head,
            f"%last = sub i64 %count, {self.lanes}",
            "br label %loop",
            "loop:",
            "%i = phi i64 [0, %entry], [%next, %loop]",
            *places,
            *self.lines,
            # the last block overlaps the one before it where the count is no multiple of the lanes
            f"%after = add i64 %i, {self.lanes}",
            "%more = icmp slt i64 %i, %last",
            "%over = icmp sgt i64 %after, %last",
            "%next = select i1 %over, i64 %last, i64 %after",
            "br i1 %more, label %loop, label %done",
            "done:",
            "ret void",
            "}",
            *(f"declare {self.float} @llvm.{n}.v{self.lanes}f32({self.float})" for n in _INTRINSIC.values()),
            f"declare {self.float} @llvm.log.v{self.lanes}f32({self.float})",
        ]
        return "\n".join(parts) + "\n"

    def _emit(self, root: int) -> None:
        """Write what a node needs, then the node: operands close to their use keep registers few."""
        graph, waiting = self.graph, [root]
        done = self.__dict__.setdefault("done", set())
        while waiting:
            node = waiting[-1]
            if node in done:
                waiting.pop()
                continue
            missing = [n for n in graph.args[node] if n not in done]
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            done.add(node)
            self._write(node)

    def _write(self, node: int) -> None:
        graph, vector = self.graph, self.float
        op = graph.ops[node]
        if op == "const":
            return
        a, *rest = [self._value(n) for n in graph.args[node]] or [""]
        if op == "input":
            line = f"load {vector}, ptr {self._row(*graph.values[node])}, align 4"
        elif op in _INFIX:
            line = f"{_INFIX[op]} {_FLAGS} {vector} {a}, {rest[0]}"
        elif op == "neg":
            line = f"fneg {_FLAGS} {vector} {a}"
        elif op in _COMPARE:
            line = f"fcmp {_COMPARE[op]} {vector} {a}, {rest[0]}"
        elif op in ("min", "max"):
            condition = self._new(f"fcmp {'olt' if op == 'min' else 'ogt'} {vector} {a}, {rest[0]}")
            line = f"select {self.bool} {condition}, {vector} {a}, {vector} {rest[0]}"
        elif op == "select":
            kind = self.bool if graph.is_bool(graph.args[node][1]) else vector
            line = f"select {self.bool} {a}, {kind} {rest[0]}, {kind} {rest[1]}"
        elif op in ("and", "or"):
            line = f"{op} {self.bool} {a}, {rest[0]}"
        elif op == "not":
            line = f"xor {self.bool} {a}, splat (i1 true)"
        elif op == "exp":
            line = self._exp(a)
        elif op == "log":
            line = f"call {_FLAGS} {vector} @llvm.log.v{self.lanes}f32({vector} {a})"
        else:
            line = f"call {_FLAGS} {vector} @llvm.{_INTRINSIC[op]}.v{self.lanes}f32({vector} {a})"
        self.lines.append(f"%n{node} = {line}")

    def _exp(self, x: str) -> str:
        v, i = self.float, self.int

        def op(name: str, a: str, b: str) -> str:
            return self._new(f"{name} {_FLAGS} {v} {a}, {b}")

        low, high = _constant(-87.3), _constant(88.7)
        below = self._new(f"fcmp olt {v} {x}, {low}")
        x = self._new(f"select {self.bool} {below}, {v} {low}, {v} {x}")
        above = self._new(f"fcmp ogt {v} {x}, {high}")
        x = self._new(f"select {self.bool} {above}, {v} {high}, {v} {x}")
        scaled = op("fadd", op("fmul", x, _constant(_LOG2E)), _constant(0.5))
        n = self._new(f"call {v} @llvm.floor.v{self.lanes}f32({v} {scaled})")
        r = op("fsub", x, op("fmul", n, _constant(_LN2_HIGH)))
        r = op("fsub", r, op("fmul", n, _constant(_LN2_LOW)))
        p = _constant(_EXP[0])
        for c in _EXP[1:]:
            p = op("fadd", op("fmul", p, r), _constant(c))
        p = op("fadd", op("fadd", op("fmul", p, op("fmul", r, r)), r), _constant(1.0))
        # NaN has no whole part; it comes back through p
        known = self._new(f"fcmp ord {v} {n}, {n}")
        n = self._new(f"select {self.bool} {known}, {v} {n}, {v} {_constant(0.0)}")
        whole = self._new(f"fptosi {v} {n} to {i}")
        bits = self._new(f"add {i} {whole}, splat (i32 127)")
        bits = self._new(f"shl {i} {bits}, splat (i32 23)")
        power = self._new(f"bitcast {i} {bits} to {v}")
        return f"fmul {_FLAGS} {v} {p}, {power}"

    def _new(self, line: str) -> str:
        self.temporaries += 1
        name = f"%t{self.temporaries}"
        self.lines.append(f"{name} = {line}")
        return name

    def _value(self, node: int) -> str:
        if self.graph.ops[node] == "const":
            return _constant(self.graph.values[node])
        return f"%n{node}"

    def _row(self, array: str, row: int) -> str:
        return "%" + self.rows.setdefault((array, row), f"p{len(self.rows)}")


def _constant(value: float) -> str:
    # LLVM writes a float as the bits of the double of the same value
    single = struct.unpack("f", struct.pack("f", max(min(value, 3.4e38), -3.4e38)))[0]
    return f"splat (float 0x{struct.unpack('Q', struct.pack('d', single))[0]:016X})"
