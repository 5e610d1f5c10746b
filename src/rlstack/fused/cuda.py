"""CUDA code generation from an expression graph: a Warp kernel with one thread per robot.

Warp only compiles and launches the source text. Its own language and adjoints are not used, so the result matches
that of :mod:`rlstack.fused.llvm`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.fused.graph import ITEM, Graph, InnerLoop
from rlstack.fused.memory_layout import ArrayLayout

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "and": "&&", "or": "||"}
_CALL = {"sqrt": "sqrtf", "exp": "expf", "log": "logf", "abs": "fabsf", "floor": "floorf"}
_EXTREME = {"min": "<", "max": ">"}


class CudaCode:
    """A function on rows of float32 arrays, compiled by Warp.

    Args as for :class:`rlstack.fused.llvm.CpuCode`; ``device`` is ``"cuda:0"`` or ``"warp:cpu"``.

    Raises:
        UserError: Warp is not installed.
    """

    def __init__(
        self,
        graph: Graph,
        arrays: Sequence[str],
        outputs: Sequence[tuple[str, int, int]],
        device: str,
        loop: InnerLoop | None = None,
    ) -> None:
        self._warp, self._device = warp(), device.removeprefix("warp:")
        constants = [] if loop is None else [np.ascontiguousarray(loop.constants, np.float32)]
        # an inner loop's constants come after the arrays
        self._constants = [self._warp.array(n, dtype=self._warp.float32, device=self._device) for n in constants]
        self._constants_at = [n.ptr for n in self._constants]
        length = 2 * len(arrays) + len(constants)
        self._table = self._warp.types.vector(length=length, dtype=self._warp.int64)
        self._kernel = _kernel(self._warp, source(graph, arrays, outputs, loop), self._table)
        self._kernel.module.load(self._device)
        self._streams: dict[int, Any] = {}

    def prepare(self, layouts: Sequence[ArrayLayout], count: int) -> Callable[[], None]:
        """Return a launcher for ``count`` robots on torch's current stream; the arrays must not move in memory."""
        if count == 0:
            return lambda: None
        table = self._table(*(p.address for p in layouts), *(p.stride for p in layouts), *self._constants_at)
        command = self._warp.launch(self._kernel, dim=count, inputs=[table], device=self._device, record_cmd=True)
        if self._device == "cpu":
            return command.launch  # type: ignore[no-any-return]
        return lambda: command.launch(self._stream())

    def _stream(self) -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return None  # Warp's own
        handle = torch.cuda.current_stream(self._device).cuda_stream
        if handle not in self._streams:
            self._streams[handle] = self._warp.Stream(self._device, cuda_stream=handle)
        return self._streams[handle]


@lru_cache(maxsize=1)
def warp() -> Any:
    """Return the initialized module ``warp``; raise ``UserError`` if it is not installed."""
    try:
        import warp as wp
    except ImportError as error:
        raise UserError(f"CUDA needs Warp, which is not there ({error}): pip install 'rlstack[cuda]'.") from error
    wp.config.log_level = wp.LOG_ERROR  # no banner
    if any(Path("/dev").glob("nvidia*")):
        wp.init()
        return wp
    # Warp's native library warns on stderr about a missing driver, which is expected without a GPU
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        wp.init()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
    return wp


def _kernel(wp: Any, text: str, table: Any) -> Any:
    def body(table: table, robot: int): ...  # type: ignore[no-untyped-def]

    # Warp caches functions by name
    body.__name__ = body.__qualname__ = "fused_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    body.__annotations__ = {"table": table, "robot": int}
    compute = wp.func_native(text)(body)

    def kernel(table: Any):  # type: ignore[no-untyped-def]
        compute(table, wp.tid())

    kernel.__annotations__ = {"table": table}
    return wp.kernel(enable_backward=False, module="unique")(kernel)


def source(
    graph: Graph, arrays: Sequence[str], outputs: Sequence[tuple[str, int, int]], loop: InnerLoop | None = None
) -> str:
    """Return the body of a function of ``table`` and ``robot``, in the common subset of CUDA and C++.

    The table holds the address of each array, then each array's row stride in floats, then the address of the inner
    loop's constants, if there is one.
    """
    index = {name: k for k, name in enumerate(arrays)}
    written = {name for name, _, _ in outputs}
    rows = {} if loop is None else loop.rows
    lines = []
    for name, k in index.items():
        kind, letter = "float" if name in written else "const float", "b" if name in rows else "a"
        lines.append(f"{kind}* __restrict__ {letter}{k} = ({kind}*)table[{k}] + robot;")
        lines.append(f"const long long s{k} = table[{len(arrays) + k}];")
    wanted: dict[int, list[str]] = {}
    for array, row, node in outputs:
        wanted.setdefault(node, []).append(f"a{index[array]}[{row} * s{index[array]}]")
    if loop is None:
        lines += _body(graph, graph.schedule(wanted), wanted, index)
        return "\n".join(lines) + "\n"
    varying = loop.varying(graph)
    lines += _body(graph, graph.schedule(loop.invariant(graph, varying, wanted)), {}, index)
    lines.append(f"const float* __restrict__ numbers = (const float*)table[{2 * len(arrays)}];")
    lines.append(f"for (int s = 0; s < {len(loop.constants)}; s++) {{")
    for name in (name for name in arrays if name in rows):
        kind, k = "float" if name in written else "const float", index[name]
        lines.append(f"{kind}* a{k} = b{k} + {rows[name]} * s * s{k};")
    lines.append(f"const float* item = numbers + {loop.constants.shape[1]} * s;")
    lines += _body(graph, (n for n in graph.schedule(wanted) if n in varying), wanted, index)
    for node in (n for n in wanted if n not in varying):
        lines += [f"{place} = {_value(graph, node)};" for place in wanted[node]]
    return "\n".join([*lines, "}"]) + "\n"


def _body(
    graph: Graph, nodes: Iterable[int], wanted: Mapping[int, Sequence[str]], index: Mapping[str, int]
) -> list[str]:
    lines = []
    for node in nodes:
        if graph.ops[node] != "const":
            kind = "bool" if graph.is_bool(node) else "float"
            lines.append(f"const {kind} n{node} = {_expression(graph, node, index)};")
        # a boolean becomes 1 or 0
        lines += [f"{place} = {_value(graph, node)};" for place in wanted.get(node, ())]
    return lines


def _expression(graph: Graph, node: int, index: Mapping[str, int]) -> str:
    op = graph.ops[node]
    if op == "input":
        array, row = graph.values[node]
        return f"item[{row}]" if array == ITEM else f"a{index[array]}[{row} * s{index[array]}]"
    a, *rest = [_value(graph, n) for n in graph.args[node]]
    if op in _INFIX:
        return f"{a} {_INFIX[op]} {rest[0]}"
    if op in _EXTREME:  # NaN propagates
        return f"({a} {_EXTREME[op]} {rest[0]} || {a} != {a}) ? {a} : {rest[0]}"
    if op == "select":
        return f"{a} ? {rest[0]} : {rest[1]}"
    return f"{ {'neg': '-', 'not': '!'}[op] }{a}" if op in ("neg", "not") else f"{_CALL[op]}({a})"


def _value(graph: Graph, node: int) -> str:
    if graph.ops[node] != "const":
        return f"n{node}"
    with np.errstate(over="ignore"):
        number = float(np.float32(graph.values[node]))
    if np.isfinite(number):
        return f"({number:.9e}f)"
    infinity = "((float)(1e308 * 10.0))"
    return f"({infinity} - {infinity})" if np.isnan(number) else infinity if number > 0.0 else f"(-{infinity})"
