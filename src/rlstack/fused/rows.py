"""Arrays of rows: one float for each robot along the last axis, in numpy, torch or Warp."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

_LINE = 16
"""Floats in a cache line."""

_FLOAT32 = np.dtype(np.float32)
_address, _bytes = ctypes.addressof, ctypes.c_char.from_buffer

Place: TypeAlias = tuple[int, int, int, int, str]
"""The fields of a :class:`Memory`."""


def stride_for(count: int) -> int:
    """Return how many floats apart rows of ``count`` floats should begin.

    With a power of two all rows would compete for the same few lines of the processor's cache; a fused step ran at
    half the speed or less.
    """
    return (-(-count // _LINE) | 1) * _LINE  # an odd number of cache lines


def zeros(rows: int, count: int, device: str = "cpu") -> Any:
    """Return zeros (rows, count) whose rows lie well for the processor: a numpy array, on CUDA a torch tensor."""
    stride = stride_for(count)
    if device.startswith("cuda"):
        import torch

        return torch.zeros(rows, stride, device=device)[:, :count]
    memory = np.zeros(rows * stride + _LINE, dtype=np.float32)
    start = -(memory.__array_interface__["data"][0] // 4) % _LINE
    return memory[start : start + rows * stride].reshape(rows, stride)[:, :count]


class Memory(NamedTuple):
    """Where a (rows, width) float32 array lies; ``stride`` is in floats, from one row to the next."""

    address: int
    stride: int
    rows: int
    width: int
    device: str


def memory(array: Any) -> Place:
    """Return where an array lies.

    Every array of every call passes here: a NamedTuple would take as long as all the rest.

    Raises:
        TypeError: It is no float32 array of numpy, torch or Warp.
        ValueError: It has not two axes, or the floats of a row are not side by side.
    """
    kind = type(array)
    return (_KINDS.get(kind) or _kind(kind))(array)


def _numpy(array: NDArray[Any]) -> Place:
    try:
        (rows, count), (step, one) = array.shape, array.strides
    except ValueError:
        raise _unfit(array, True) from None
    if array.dtype is not _FLOAT32 and array.dtype != _FLOAT32:
        raise _unfit(array, False)
    if (one != 4 and count > 1) or step & 3:
        raise _unfit(array, True)
    try:
        # a third of the time of __array_interface__
        address = _address(_bytes(array[0]))
    except (TypeError, ValueError, BufferError, IndexError):  # not to be written, or empty
        address = array.__array_interface__["data"][0]
    return address, step >> 2, rows, count, "cpu"


def _torch(single: Any) -> Callable[[Any], Place]:
    def read(array: Any) -> Place:
        try:
            (rows, count), (step, one) = array.shape, array.stride()
        except ValueError:
            raise _unfit(array, True) from None
        if array.dtype is not single or (one != 1 and count > 1):
            raise _unfit(array, array.dtype is single)
        return array.data_ptr(), step, rows, count, "cpu" if array.is_cpu else str(array.device)

    return read


def _warp(array: Any) -> Place:
    single = array.dtype.__name__ == "float32"
    if not single or array.ndim != 2 or (array.strides[1] != 4 and array.shape[1] > 1):
        raise _unfit(array, single)
    return array.ptr or 0, array.strides[0] >> 2, *array.shape, str(array.device)


def _unfit(array: Any, single: bool) -> Exception:
    if not single:
        return TypeError(f"an array of {array.dtype}; float32 is needed")
    if len(array.shape) != 2:
        return ValueError(f"an array of shape {tuple(array.shape)}; (rows, robots) is needed")
    return ValueError("an array whose robots are not side by side in memory: make it a (rows, robots) array in C order")


_KINDS: dict[type, Callable[[Any], Place]] = {np.ndarray: _numpy}


def _kind(kind: type) -> Callable[[Any], Place]:
    if issubclass(kind, np.ndarray):
        read: Callable[[Any], Place] = _numpy
    elif "torch" in sys.modules and issubclass(kind, sys.modules["torch"].Tensor):
        read = _torch(sys.modules["torch"].float32)
    elif kind.__module__.partition(".")[0] == "warp" and hasattr(kind, "numpy"):
        read = _warp
    else:
        raise TypeError(f"a {kind.__name__}; a float32 array of numpy, torch or Warp is needed")
    return _KINDS.setdefault(kind, read)


def overlap(a: Memory, b: Memory) -> bool:
    """Return whether two arrays may share memory; views of different robots of one array do not."""
    if not (a.rows and a.width and b.rows and b.width) or a.device != b.device:
        return False
    (a_first, a_end), (b_first, b_end) = _range(a), _range(b)
    if a_end <= b_first or b_end <= a_first:
        return False
    if a.stride != b.stride or a.stride < max(a.width, b.width) or (b.address - a.address) % 4:
        return True
    ahead = (b.address - a.address) // 4 % a.stride
    return ahead < a.width or ahead + b.width > a.stride


def view(place: Memory) -> NDArray[np.float32]:
    """Return the array at a place in the processor's memory, for as long as its owner keeps it."""
    first, end = _range(place)
    if not place.rows or not place.width:
        return np.zeros((place.rows, place.width), np.float32)
    flat = np.ctypeslib.as_array((ctypes.c_float * ((end - first) // 4)).from_address(first))
    return np.lib.stride_tricks.as_strided(
        flat[(place.address - first) // 4 :], (place.rows, place.width), (4 * place.stride, 4)
    )


def _range(m: Memory) -> tuple[int, int]:
    last = m.address + 4 * m.stride * (m.rows - 1)
    return min(m.address, last), max(m.address, last) + 4 * m.width
