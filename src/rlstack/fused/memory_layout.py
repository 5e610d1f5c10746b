"""Memory layout of (rows, robots) arrays in numpy, torch and Warp."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

_LINE = 64
"""Bytes in a cache line."""

DTYPES = {"float32": ctypes.c_float, "float64": ctypes.c_double}
"""Supported dtypes."""

_address, _bytes = ctypes.addressof, ctypes.c_char.from_buffer

LayoutFields: TypeAlias = tuple[int, int, int, int, str, int]
"""The fields of a :class:`ArrayLayout`."""

Reader: TypeAlias = Callable[[Any], LayoutFields]


def stride_for(count: int, item: int = 4) -> int:
    """Return the row stride, in values of ``item`` bytes, for rows of ``count`` values.

    With a power of two, all rows would compete for the same few cache lines; a fused step then ran at half the speed
    or less.
    """
    line = _LINE // item
    return (-(-count // line) | 1) * line  # an odd number of cache lines


def zeros(rows: int, count: int, device: str = "cpu", dtype: str = "float32") -> Any:
    """Return zeros (rows, count) with a cache-friendly row stride: a numpy array, or on CUDA a torch tensor."""
    item = np.dtype(dtype).itemsize
    stride = stride_for(count, item)
    if device.startswith("cuda"):
        import torch

        return torch.zeros(rows, stride, device=device, dtype=getattr(torch, dtype))[:, :count]
    line = _LINE // item
    memory = np.zeros(rows * stride + line, dtype=dtype)
    start = -(memory.__array_interface__["data"][0] // item) % line
    return memory[start : start + rows * stride].reshape(rows, stride)[:, :count]


class ArrayLayout(NamedTuple):
    """Location of a (rows, width) array in memory; the row ``stride`` is in values of ``item`` bytes."""

    address: int
    stride: int
    rows: int
    width: int
    device: str
    item: int = 4


@lru_cache
def reader(dtype: str = "float32") -> Reader:
    """Return a function that locates an array of ``dtype`` in memory.

    It runs for every array of every call, so it returns a plain tuple: a NamedTuple would double its time. It raises
    ``TypeError`` for anything but a numpy, torch or Warp array of that dtype, and ``ValueError`` for an array without
    two axes or with rows that are not contiguous.

    Raises:
        ValueError: The dtype is unknown.
    """
    if dtype not in DTYPES:
        raise ValueError(f"there are no arrays of {dtype!r} here: choose one of {', '.join(DTYPES)}")
    kinds: dict[type, Reader] = {np.ndarray: _numpy(dtype)}

    def read(array: Any) -> LayoutFields:
        kind = type(array)
        return (kinds.get(kind) or kinds.setdefault(kind, _reader(kind, dtype)))(array)

    return read


def _numpy(dtype: str) -> Reader:
    wanted = np.dtype(dtype)
    item = wanted.itemsize
    shift, rest = item.bit_length() - 1, item - 1

    def read(array: NDArray[Any]) -> LayoutFields:
        try:
            (rows, count), (step, one) = array.shape, array.strides
        except ValueError:
            raise _unfit(array, dtype, True) from None
        if array.dtype is not wanted and array.dtype != wanted:
            raise _unfit(array, dtype, False)
        if (one != item and count > 1) or step & rest:
            raise _unfit(array, dtype, True)
        try:
            # a third of the time of __array_interface__
            address = _address(_bytes(array[0]))
        except (TypeError, ValueError, BufferError, IndexError):  # read-only or empty
            address = array.__array_interface__["data"][0]
        return address, step >> shift, rows, count, "cpu", item

    return read


def _torch(dtype: str) -> Reader:
    wanted, item = getattr(sys.modules["torch"], dtype), np.dtype(dtype).itemsize

    def read(array: Any) -> LayoutFields:
        try:
            (rows, count), (step, one) = array.shape, array.stride()
        except ValueError:
            raise _unfit(array, dtype, True) from None
        if array.dtype is not wanted or (one != 1 and count > 1):
            raise _unfit(array, dtype, array.dtype is wanted)
        return array.data_ptr(), step, rows, count, "cpu" if array.is_cpu else str(array.device), item

    return read


def _warp(dtype: str) -> Reader:
    item = np.dtype(dtype).itemsize

    def read(array: Any) -> LayoutFields:
        fits = array.dtype.__name__ == dtype
        if not fits or array.ndim != 2 or (array.strides[1] != item and array.shape[1] > 1):
            raise _unfit(array, dtype, fits)
        return array.ptr or 0, array.strides[0] // item, *array.shape, str(array.device), item

    return read


def _unfit(array: Any, dtype: str, fits: bool) -> Exception:
    if not fits:
        return TypeError(f"an array of {array.dtype}; {dtype} is needed")
    if len(array.shape) != 2:
        return ValueError(f"an array of shape {tuple(array.shape)}; (rows, robots) is needed")
    return ValueError("an array whose robots are not side by side in memory: make it a (rows, robots) array in C order")


def _reader(kind: type, dtype: str) -> Reader:
    if issubclass(kind, np.ndarray):
        return _numpy(dtype)
    if "torch" in sys.modules and issubclass(kind, sys.modules["torch"].Tensor):
        return _torch(dtype)
    if kind.__module__.partition(".")[0] == "warp" and hasattr(kind, "numpy"):
        return _warp(dtype)
    raise TypeError(f"a {kind.__name__}; a {dtype} array of numpy, torch or Warp is needed")


def overlap(a: ArrayLayout, b: ArrayLayout) -> bool:
    """Return whether two arrays may share memory; views of different robots in one array do not."""
    if not (a.rows and a.width and b.rows and b.width) or a.device != b.device:
        return False
    (a_first, a_end), (b_first, b_end) = _range(a), _range(b)
    if a_end <= b_first or b_end <= a_first:
        return False
    item = a.item
    if b.item != item or a.stride != b.stride or a.stride < max(a.width, b.width) or (b.address - a.address) % item:
        return True
    ahead = (b.address - a.address) // item % a.stride
    return ahead < a.width or ahead + b.width > a.stride


def view(layout: ArrayLayout) -> NDArray[Any]:
    """Return a view of the array at a location in CPU memory, valid while its owner keeps it."""
    first, end = _range(layout)
    item = layout.item
    dtype, kind = next((name, kind) for name, kind in DTYPES.items() if ctypes.sizeof(kind) == item)
    if not layout.rows or not layout.width:
        return np.zeros((layout.rows, layout.width), dtype)
    flat = np.ctypeslib.as_array((kind * ((end - first) // item)).from_address(first))
    return np.lib.stride_tricks.as_strided(
        flat[(layout.address - first) // item :], (layout.rows, layout.width), (item * layout.stride, item)
    )


def _range(m: ArrayLayout) -> tuple[int, int]:
    last = m.address + m.item * m.stride * (m.rows - 1)
    return min(m.address, last), max(m.address, last) + m.item * m.width
