"""CPU code generation: an expression graph as one SIMD loop over robots, compiled by LLVM and cached on disk."""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from rlstack.files import write_atomically
from rlstack.fused.graph import Graph, InnerLoop
from rlstack.fused.llvm_ir import IrWriter
from rlstack.fused.memory_layout import ArrayLayout, view


@dataclass(frozen=True)
class Processor:
    """A target processor: LLVM's name and features, and the number of floats in a register."""

    name: str
    features: str
    lanes: int

    def machine(self) -> llvm.TargetMachine:
        """Return a new LLVM code generator; an engine takes ownership of it and frees it."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm.Target.from_default_triple().create_target_machine(cpu=self.name, features=self.features, opt=3)


@lru_cache(maxsize=1)
def host() -> Processor:
    """Return the processor of this machine."""
    features = llvm.get_host_cpu_features()
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4
    return Processor(llvm.get_host_cpu_name(), features.flatten(), lanes)


class CpuCode:
    """A function on rows of arrays, compiled for this processor.

    Args:
        graph: Holds the expressions.
        arrays: Names of all arrays in the order in which they are passed, inputs then outputs.
        outputs: (array, row, node) of every value written.
        dtype: Type of all arrays: ``"float32"``, or ``"float64"``, which is computed one robot at a time.
        loop: The inner loop, if there is one.
    """

    def __init__(
        self,
        graph: Graph,
        arrays: Sequence[str],
        outputs: Sequence[tuple[str, int, int]],
        dtype: str = "float32",
        loop: InnerLoop | None = None,
    ) -> None:
        processor = host()
        machine, self.lanes = processor.machine(), processor.lanes if dtype == "float32" else 1
        text = IrWriter(graph, arrays, outputs, self.lanes, dtype, loop).text()
        key = hashlib.sha256("\n".join((llvmlite.__version__, repr(processor), text)).encode()).hexdigest()[:32]
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        self.was_cached = False
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.set_object_cache(_store(key), self._load(key))
        engine.finalize_object()
        call: Any = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)(engine.get_function_address("kernel"))
        call.engine = engine  # keeps the machine code alive
        self._call = call
        # an inner loop's constants come after the arrays
        self._constants = [] if loop is None else [np.ascontiguousarray(loop.constants, dtype=dtype)]
        self._constants_at = [n.__array_interface__["data"][0] for n in self._constants]
        self._pack = struct.Struct(f"{2 * len(arrays) + len(self._constants_at)}q").pack
        self._written = {arrays.index(name) for name, _, _ in outputs}

    def prepare(self, layouts: Sequence[ArrayLayout], count: int) -> Callable[[], None]:
        """Return a launcher for ``count`` robots; the arrays must not move in memory."""
        if count == 0:
            return lambda: None
        if count < self.lanes:
            return self._padded(layouts, count)
        table = self._pack(*(p.address for p in layouts), *(p.stride for p in layouts), *self._constants_at)
        return partial(self._call, table, count)

    def _padded(self, layouts: Sequence[ArrayLayout], count: int) -> Callable[[], None]:
        # fewer robots than lanes are padded with copies of the first
        wide = [np.zeros((p.rows, self.lanes), np.float32) for p in layouts]
        table = self._pack(
            *(w.__array_interface__["data"][0] for w in wide), *[self.lanes] * len(wide), *self._constants_at
        )
        arrays = [view(p._replace(width=count)) for p in layouts]

        def compute() -> None:
            for k, (array, copy) in enumerate(zip(arrays, wide)):
                if k not in self._written:
                    copy[:, :count] = array
                    copy[:, count:] = array[:, :1]
            self._call(table, self.lanes)
            for k in self._written:
                arrays[k][:] = wide[k][:, :count]

        return compute

    def _load(self, key: str) -> Callable[[object], bytes | None]:
        def load(module: object) -> bytes | None:
            folder = cache_folder()
            try:
                data = (folder / key).read_bytes() if folder else b""
            except OSError:
                return None
            if hashlib.sha256(data[32:]).digest() != data[:32]:
                return None
            self.was_cached = True
            return data[32:]

        return load


def _store(key: str) -> Callable[[object, bytes], None]:
    def store(module: object, data: bytes) -> None:
        folder = cache_folder()
        try:
            if folder:
                write_atomically(folder / key, hashlib.sha256(data).digest() + data)
        except Exception:  # without a cache the kernel is compiled each time
            return

    return store


def cache_folder() -> Path | None:
    """Return the cache folder of compiled kernels, or None if this user has none."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"))
    return base / "rlstack" / "kernels" if base.is_absolute() else None
