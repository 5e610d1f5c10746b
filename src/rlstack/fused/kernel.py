"""Kernel: a per-robot function, fused into one pass over all robots, and its reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.fused.adjoint import gradients
from rlstack.fused.devices import check_device
from rlstack.fused.expression import Scalar
from rlstack.fused.graph import Graph
from rlstack.fused.rows import Memory, Place, overlap, reader

Rows = NDArray[Any]
"""An object array (rows,) of expressions."""

GRADIENT = "gradient of "
"""Before an array's name: the derivative of the objective with respect to it."""

_REMEMBERED = 256


class Compiled(Protocol):
    """A kernel on one kind of device."""

    def prepare(self, places: Sequence[Memory], count: int) -> Callable[[], None]:
        """Return what computes for ``count`` robots; the arrays must stay where they are."""


class Kernel:
    """A function of N robots' rows, compiled once.

    Arrays are (rows, N) of one dtype with robots along the last, contiguous axis: of numpy, torch or Warp.

    Args:
        function: Takes an object array (rows,) of expressions for each input by keyword and returns such arrays by
            name. It is written for one robot, in numpy style.
        inputs: Rows of each input.
        wanted: For the reverse mode: the inputs to differentiate with respect to; None compiles the function itself.
        device: ``"cpu"`` or ``"cuda:0"``; where the arrays are.
        dtype: Of all arrays and of what is computed: ``"float32"``, many robots at a time, or on the CPU ``"float64"``,
            one after the other.

    The reverse mode takes the inputs and, for each output, ``"gradient of <output>"``; it gives
    ``"gradient of <input>"`` for each wanted input. It computes the function again rather than keep what is inside.

    Raises:
        TypeError: The function decides by a value, returns something else, or uses what is not known here.
        ValueError: An array of ``wanted`` is no input, an output has the name of an input, or there is no such dtype.
        UserError: There is no such device here, it has not this dtype, or what makes code for it is not installed.
    """

    def __init__(
        self,
        function: Callable[..., Mapping[str, Rows]],
        inputs: Mapping[str, int],
        wanted: tuple[str, ...] | None = None,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        self.device, self.dtype = check_device(device), dtype
        self._memory = reader(dtype)
        if dtype == "float64" and self.device != "cpu":
            raise UserError(f"On {self.device} kernels compute in float32 only: choose float32, or the device cpu.")
        graph = Graph()
        rows = {name: _input(graph, name, count) for name, count in inputs.items()}
        made = {name: _output(graph, name, array) for name, array in function(**rows).items()}
        if set(made) & set(inputs):
            raise ValueError(f"{sorted(set(made) & set(inputs))} are inputs; outputs need names of their own")
        if not set(wanted or ()) <= set(inputs):
            raise ValueError(f"{sorted(set(wanted or ()) - set(inputs))} are no inputs; inputs: {sorted(inputs)}")
        results = made if wanted is None else _reverse(graph, made, rows, wanted)
        self.inputs = dict(inputs)
        if wanted is not None:
            self.inputs.update({GRADIENT + name: len(array) for name, array in made.items()})
        self.outputs = {name: len(array) for name, array in results.items()}
        """Rows of each output."""
        self.operations = len(graph)
        written = [(name, row, entry.node) for name, array in results.items() for row, entry in enumerate(array)]
        self._rows = (*self.inputs.values(), *self.outputs.values())
        self._names = (*self.inputs, *self.outputs)
        self._compiled = _compile(self.device, graph, self._names, written, dtype)
        self._launches: dict[Any, Callable[[], None]] = {}

    def __call__(self, arrays: Mapping[str, Any], count: int | None = None) -> None:
        """Compute for all robots, or the first ``count``: read the inputs and write the outputs in ``arrays``.

        On CUDA it runs on torch's current stream.

        Raises:
            KeyError: An array is missing.
            TypeError, ValueError: An array is not of the kernel's dtype, not (rows, N) as the function's, not on the
                device, or an output shares memory with another array.
        """
        try:
            places = tuple([self._memory(arrays[name]) for name in self._names])
        except (KeyError, TypeError, ValueError) as error:
            raise self._explain(arrays, error) from None
        (self._launches.get((places, count)) or self._launch(places, count))()

    def prepare(self, arrays: Mapping[str, Any], count: int | None = None) -> Callable[[], None]:
        """Return what computes on these arrays whenever it is called: the same as calling the kernel, looked at once.

        The arrays must stay where they are (no ``resize_`` or ``set_``); they are kept from being freed.

        Raises:
            KeyError, TypeError, ValueError: As in calling the kernel.
        """
        kept = [arrays.get(name) for name in self._names]
        try:
            places = tuple([self._memory(array) for array in kept])
        except (TypeError, ValueError) as error:
            raise self._explain(arrays, error) from None
        launch: Any = partial(self._launch(places, count))
        launch.arrays = kept
        return launch  # type: ignore[no-any-return]

    def _launch(self, where: tuple[Place, ...], count: int | None) -> Callable[[], None]:
        places = [Memory(*place) for place in where]
        self._check(places)
        width = places[0].width if places else 0
        if count is not None and not 0 <= count <= width:
            raise ValueError(f"{count} robots were asked for; the arrays have {width}")
        if len(self._launches) >= _REMEMBERED:
            self._launches.clear()
        self._launches[where, count] = launch = self._compiled.prepare(places, width if count is None else count)
        return launch

    def _check(self, places: Sequence[Memory]) -> None:
        for name, rows, place in zip(self._names, self._rows, places):
            if place.rows != rows:
                raise ValueError(f"'{name}' has {place.rows} rows; the function was compiled for {rows}")
            if place.width != places[0].width:
                raise ValueError(
                    f"'{name}' is for {place.width} robots, '{self._names[0]}' for {places[0].width}: all must be equal"
                )
            if place.device != self.device.removeprefix("warp:"):
                raise ValueError(f"'{name}' is on {place.device}; the kernel runs on {self.device}")
        for k in range(len(self.inputs), len(places)):
            if places[k].stride < places[k].width and places[k].rows > 1:
                raise ValueError(f"'{self._names[k]}' is written, and its rows share memory")
            for j in range(k):
                if overlap(places[k], places[j]):
                    raise ValueError(f"'{self._names[k]}' is written, and shares memory with '{self._names[j]}'")

    def _explain(self, arrays: Mapping[str, Any], error: Exception) -> Exception:
        for name in self._names:
            if name not in arrays:
                return KeyError(f"the array '{name}' is missing; needed: {', '.join(self._names)}")
            try:
                self._memory(arrays[name])
            except (TypeError, ValueError) as found:
                return type(found)(f"'{name}' is {found}")
        return error


def _compile(
    device: str, graph: Graph, names: Sequence[str], written: list[tuple[str, int, int]], dtype: str
) -> Compiled:
    if device == "cpu":
        try:
            from rlstack.fused.llvm import Loop
        except ImportError as error:
            raise UserError(f"The batch simulator needs llvmlite ({error}): pip install 'rlstack[sim]'.") from error
        return Loop(graph, names, written, dtype)
    from rlstack.fused.cuda import Launcher

    return Launcher(graph, names, written, device)


def _input(graph: Graph, name: str, count: int) -> Rows:
    rows = np.empty(count, dtype=object)
    rows[:] = [Scalar(graph, graph.input(name, row)) for row in range(count)]
    return rows


def _output(graph: Graph, name: str, array: Any) -> Rows:
    rows = np.atleast_1d(np.array(array, dtype=object))
    if rows.ndim != 1:
        raise TypeError(f"the function's '{name}' has the shape {rows.shape}; (rows,) is needed: one robot's numbers")
    for row, entry in enumerate(rows):
        if isinstance(entry, np.ndarray) and entry.ndim == 0:
            rows[row] = entry = entry[()]
        if isinstance(entry, Scalar):
            if entry.graph is not graph:
                raise TypeError(f"the function's '{name}' holds an expression of another function")
        elif isinstance(entry, (bool, int, float, np.generic)):
            rows[row] = Scalar(graph, graph.constant(float(entry)))
        else:
            raise TypeError(f"the function's '{name}' holds a {type(entry).__name__}, neither expression nor number")
    return rows


def _reverse(
    graph: Graph, made: Mapping[str, Rows], rows: Mapping[str, Rows], wanted: tuple[str, ...]
) -> dict[str, Rows]:
    seeds: dict[int, Scalar] = {}
    for name, array in made.items():
        for row, entry in enumerate(array):
            if not graph.is_bool(entry.node):
                seed = Scalar(graph, graph.input(GRADIENT + name, row))
                seeds[entry.node] = seeds[entry.node] + seed if entry.node in seeds else seed
    targets = {name: [entry.node for entry in rows[name]] for name in wanted}
    found = gradients(graph, seeds, [node for nodes in targets.values() for node in nodes])
    none = Scalar(graph, graph.constant(0.0))
    results = {}
    for name, nodes in targets.items():
        column = np.empty(len(nodes), dtype=object)
        column[:] = [none if found[node] is None else found[node] for node in nodes]
        results[GRADIENT + name] = column
    return results
