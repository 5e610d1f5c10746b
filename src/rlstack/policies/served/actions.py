"""Reads the actions that a policy server sends: pickles of a list of timed tensors, without running what is in them.

A pickle may name any function, and reading it calls them. Here its opcodes are looked through first: only those that
data need are admitted. Then only the classes of LeRobot's timed action and of PyTorch's tensors are found, and these
are replaced by arrays: PyTorch is not needed, and no code of the sender's choice runs.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array

LARGEST_BYTES = 4 * 2**20
_MOST_VALUES = 2**20

_ADMITTED = frozenset(
    [
        "PROTO",
        "FRAME",
        "STOP",
        "MARK",
        "POP",
        "EMPTY_TUPLE",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "EMPTY_LIST",
        "APPEND",
        "APPENDS",
        "EMPTY_DICT",
        "SETITEM",
        "SETITEMS",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "BINFLOAT",
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "SHORT_BINBYTES",
        "BINBYTES",
        "MEMOIZE",
        "BINPUT",
        "LONG_BINPUT",
        "BINGET",
        "LONG_BINGET",
        "GLOBAL",
        "STACK_GLOBAL",
        "REDUCE",
        "NEWOBJ",
        "BUILD",
        "BINPERSID",
    ]
)
_PUTS = frozenset(("BINPUT", "LONG_BINPUT"))
_STORAGES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
}
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""Of PyTorch's older file format, in which a tensor's storage is pickled."""


class NoActions(ValueError):
    """What a server sent is not a list of timed actions; the text says why."""


@dataclass
class TimedAction:
    """One action of a chunk.

    Attributes:
        timestamp: Time that it is for, s, on the clock of the observation's.
        timestep: Step that it is for.
        action: (actions,) in LeRobot's units.
    """

    timestamp: float
    timestep: int
    action: Array


def read_actions(data: bytes, size: int, most: int) -> list[TimedAction]:
    """Return the actions in a pickle.

    Args:
        data: The pickle.
        size: Number of elements that an action must have.
        most: Number of actions that it may have.

    Raises:
        NoActions: It has something else in it, or an action of another size or with a value that is not finite.
    """
    try:
        found = _load(io.BytesIO(data), _Actions)
    except NoActions:
        raise
    except Exception as error:  # whatever a damaged pickle leads to, it holds no actions
        raise NoActions(f"it cannot be read ({type(error).__name__}: {error})") from error
    if not isinstance(found, list) or not 1 <= len(found) <= most:
        raise NoActions(f"it is not a list of 1 to {most} actions")
    for place, one in enumerate(found):
        if not isinstance(one, TimedAction):
            raise NoActions(f"its element {place} is no timed action")
        one.action = _checked(one, place, size)
    first = found[0].timestep
    if [one.timestep for one in found] != list(range(first, first + len(found))):
        raise NoActions("its steps do not follow each other")
    return found


def _checked(one: TimedAction, place: int, size: int) -> Array:
    fields = vars(one)
    if set(fields) != {"timestamp", "timestep", "action"}:
        raise NoActions(f"its action {place} has the fields {', '.join(sorted(map(str, fields)))}")
    if type(one.timestep) is not int or type(one.timestamp) is not float or not np.isfinite(one.timestamp):
        raise NoActions(f"its action {place} has no time")
    if not isinstance(one.action, np.ndarray) or one.action.shape != (size,):
        shape = list(np.shape(one.action)) if isinstance(one.action, np.ndarray) else type(one.action).__name__
        raise NoActions(f"its action {place} has the shape {shape}, and the robot takes [{size}]")
    if not np.isfinite(one.action).all():
        raise NoActions(f"its action {place} is not finite ({one.action.tolist()})")
    return one.action.astype(float)


def _load(stream: io.BytesIO, reader: type[pickle.Unpickler]) -> Any:
    """Read one pickle from a stream, whose opcodes are looked through before any is carried out."""
    start = stream.tell()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if opcode.name not in _ADMITTED:
            raise NoActions(f"it has the opcode {opcode.name}, which no actions need")
        if opcode.name in _PUTS and not (isinstance(argument, int) and argument <= count):
            raise NoActions("its memo is not in order")
    ended = stream.tell()
    stream.seek(start)
    found = reader(io.BytesIO(stream.read(ended - start))).load()
    return found


class _Actions(pickle.Unpickler):
    """Finds the names that a list of timed actions needs, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class or function of the sender."""
        found = {
            ("lerobot.async_inference.helpers", "TimedAction"): TimedAction,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch.storage", "_load_from_bytes"): _storage,
            ("collections", "OrderedDict"): OrderedDict,
        }.get((module, name))
        if found is None:
            raise NoActions(f"it names {module}.{name}, which no actions need")
        return found


class _Storages(pickle.Unpickler):
    """Reads the header of a storage: a number, a mapping, or the storage itself by what identifies it."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the type of a storage's numbers."""
        if module != "torch" or name not in _STORAGES:
            raise NoActions(f"it has numbers of the type {module}.{name}: {', '.join(_STORAGES)} are read")
        return _Kind(_STORAGES[name])

    def persistent_load(self, identity: Any) -> Any:
        """Return the storage that a header speaks of, as its type, key and length."""
        what, kind, key, where, length, view = identity
        if what != "storage" or not isinstance(kind, _Kind) or where != "cpu" or view is not None:
            raise NoActions("it has a storage of an unknown form")
        return kind.dtype, key, length


@dataclass(frozen=True)
class _Kind:
    dtype: np.dtype[Any]


def _storage(data: bytes) -> Array:
    """Return the numbers of a storage in PyTorch's older file format."""
    stream = io.BytesIO(data)
    if _load(stream, _Storages) != _MAGIC or _load(stream, _Storages) != _PROTOCOL:
        raise NoActions("it has a storage in an unknown format")
    system = _load(stream, _Storages)
    dtype, key, length = _load(stream, _Storages)
    if not isinstance(system, dict) or system.get("little_endian") is not True or _load(stream, _Storages) != [key]:
        raise NoActions("it has a storage of an unknown form")
    stated = int.from_bytes(stream.read(8), "little")
    rest = stream.read()
    if not (length == stated <= _MOST_VALUES and len(rest) == length * dtype.itemsize):
        raise NoActions("it has a storage of another length than it says")
    return np.frombuffer(rest, dtype)


def _tensor(
    storage: Any, offset: int, size: Sequence[int], stride: Sequence[int], requires_grad: Any, hooks: Any, *rest: Any
) -> Array:
    """Return a tensor's numbers, as an array."""
    numbers = [*size, *stride, offset]
    if not isinstance(storage, np.ndarray) or len(size) > 2 or len(size) != len(stride):
        raise NoActions("it has a tensor of an unknown form")
    if any(type(one) is not int or one < 0 for one in numbers) or int(np.prod(size, dtype=float)) > _MOST_VALUES:
        raise NoActions("it has a tensor of an unknown form")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride))
    if 0 not in size and last >= len(storage):
        raise NoActions("it has a tensor that reaches beyond its storage")
    steps = [step * storage.itemsize for step in stride]
    view = np.lib.stride_tricks.as_strided(storage[offset:], tuple(size), steps, writeable=False)
    return view.copy()
