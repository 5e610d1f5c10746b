"""Checking the arrays of compiled functions and launching them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from rlstack.errors import UserError
from rlstack.fused.devices import check_device
from rlstack.fused.graph import Graph, InnerLoop
from rlstack.fused.memory_layout import ArrayLayout, LayoutFields, overlap, reader

_MOST_LAUNCHERS = 256


class DeviceCode(Protocol):
    """A kernel compiled for one type of device."""

    def prepare(self, layouts: Sequence[ArrayLayout], count: int) -> Callable[[], None]:
        """Return a launcher for ``count`` robots; the arrays must not move in memory."""


class CompiledKernel:
    """Checks arrays and launches compiled code on them.

    Args:
        device: Device of the arrays, ``"cpu"`` or ``"cuda:0"``.
        dtype: Type of all arrays and of the arithmetic.

    Raises:
        ValueError: The dtype is unknown.
        UserError: The device does not exist here or does not support the dtype.
    """

    inputs: dict[str, int]
    """Number of rows of each input."""
    outputs: dict[str, int]
    """Number of rows of each output."""
    operations: int
    """Number of nodes of the expression graph."""

    def __init__(self, device: str, dtype: str) -> None:
        self.device, self.dtype = check_device(device), dtype
        self._locate = reader(dtype)
        if dtype == "float64" and self.device != "cpu":
            raise UserError(f"On {self.device} kernels compute in float32 only: choose float32, or the device cpu.")

    def _compile(self, graph: Graph, written: list[tuple[str, int, int]], loop: InnerLoop | None = None) -> None:
        """Compile the graph, from ``self.inputs`` to ``self.outputs``."""
        self.operations = len(graph)
        self._rows = (*self.inputs.values(), *self.outputs.values())
        self._names = (*self.inputs, *self.outputs)
        self._compiled = _compiled(self.device, graph, self._names, written, self.dtype, loop)
        self._launches: dict[Any, Callable[[], None]] = {}

    def __call__(self, arrays: Mapping[str, Any], count: int | None = None) -> None:
        """Compute the outputs in ``arrays`` from the inputs, for all robots or the first ``count``.

        On CUDA it runs on torch's current stream.

        Raises:
            KeyError: An array is missing.
            TypeError, ValueError: An array has another dtype, another shape than (rows, N), or is on another device, or
                an output shares memory with another array.
        """
        try:
            layouts = tuple([self._locate(arrays[name]) for name in self._names])
        except (KeyError, TypeError, ValueError) as error:
            raise self._explain(arrays, error) from None
        (self._launches.get((layouts, count)) or self._launch(layouts, count))()

    def prepare(self, arrays: Mapping[str, Any], count: int | None = None) -> Callable[[], None]:
        """Return a launcher bound to these arrays, which are checked once.

        The arrays must not move in memory (no ``resize_`` or ``set_``); the launcher keeps them alive.

        Raises:
            KeyError, TypeError, ValueError: As for calling the kernel.
        """
        kept = [arrays.get(name) for name in self._names]
        try:
            layouts = tuple([self._locate(array) for array in kept])
        except (TypeError, ValueError) as error:
            raise self._explain(arrays, error) from None
        launch: Any = partial(self._launch(layouts, count))
        launch.arrays = kept
        return launch  # type: ignore[no-any-return]

    def _launch(self, where: tuple[LayoutFields, ...], count: int | None) -> Callable[[], None]:
        layouts = [ArrayLayout(*fields) for fields in where]
        self._check(layouts)
        width = layouts[0].width if layouts else 0
        if count is not None and not 0 <= count <= width:
            raise ValueError(f"{count} robots were asked for; the arrays have {width}")
        if len(self._launches) >= _MOST_LAUNCHERS:
            self._launches.clear()
        self._launches[where, count] = launch = self._compiled.prepare(layouts, width if count is None else count)
        return launch

    def _check(self, layouts: Sequence[ArrayLayout]) -> None:
        for name, rows, layout in zip(self._names, self._rows, layouts):
            if layout.rows != rows:
                raise ValueError(f"'{name}' has {layout.rows} rows; the function was compiled for {rows}")
            if layout.width != layouts[0].width:
                first = f"'{self._names[0]}' for {layouts[0].width}"
                raise ValueError(f"'{name}' is for {layout.width} robots, {first}: all must be equal")
            if layout.device != self.device.removeprefix("warp:"):
                raise ValueError(f"'{name}' is on {layout.device}; the kernel runs on {self.device}")
        for k in range(len(self.inputs), len(layouts)):
            if layouts[k].stride < layouts[k].width and layouts[k].rows > 1:
                raise ValueError(f"'{self._names[k]}' is written, and its rows share memory")
            for j in range(k):
                if overlap(layouts[k], layouts[j]):
                    raise ValueError(f"'{self._names[k]}' is written, and shares memory with '{self._names[j]}'")

    def _explain(self, arrays: Mapping[str, Any], error: Exception) -> Exception:
        for name in self._names:
            if name not in arrays:
                return KeyError(f"the array '{name}' is missing; needed: {', '.join(self._names)}")
            try:
                self._locate(arrays[name])
            except (TypeError, ValueError) as found:
                return type(found)(f"'{name}' is {found}")
        return error


def _compiled(
    device: str,
    graph: Graph,
    names: Sequence[str],
    written: list[tuple[str, int, int]],
    dtype: str,
    loop: InnerLoop | None,
) -> DeviceCode:
    if device == "cpu":
        try:
            from rlstack.fused.llvm import CpuCode
        except ImportError as error:
            raise UserError(f"The batch simulator needs llvmlite ({error}): pip install 'rlstack[sim]'.") from error
        return CpuCode(graph, names, written, dtype, loop)
    from rlstack.fused.cuda import CudaCode

    return CudaCode(graph, names, written, device, loop)
