"""The program between an ONNX graph and C: steps on strided views of flat buffers, all sizes known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT, INTEGER, BOOLEAN = "float", "int32_t", "unsigned char"
"""C types of elements; an ONNX int64 has 32 bits here."""

BYTES = {FLOAT: 4, INTEGER: 4, BOOLEAN: 1}


class Place(Enum):
    """Where a buffer is in memory."""

    INPUT = "input"
    STATE = "state"
    CONSTANT = "constant"
    SCRATCH = "scratch"


@dataclass(eq=False)
class Buffer:
    """A flat array of C."""

    kind: str
    """Type of its elements: FLOAT, INTEGER or BOOLEAN."""
    size: int
    place: Place
    name: str = ""
    """Member of the struct of inputs or of the state; name of a constant."""
    values: NDArray[Any] | None = None
    """Of a constant."""
    offset: int = 0
    """Of a scratch buffer, within the scratch memory of its kind; set by the memory plan."""


@dataclass(frozen=True, eq=False)
class View:
    """A tensor: elements of one buffer at a start and with a stride per axis, as in numpy."""

    buffer: Buffer
    index: NDArray[np.int64]
    """Which element of the buffer each element is: a view of an ``arange``, so numpy slices and transposes it."""

    @classmethod
    def of(cls, buffer: Buffer, shape: Sequence[int]) -> View:
        """Return a whole buffer as a tensor."""
        return cls(buffer, np.arange(math.prod(shape)).reshape(shape))

    @property
    def kind(self) -> str:
        """The C type of the elements."""
        return self.buffer.kind

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.index.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.index.size

    @property
    def start(self) -> int:
        """Element of the buffer that is the first one here."""
        return int(self.index.flat[0]) if self.size else 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements of the buffer from one element to the next, per axis."""
        return tuple(0 if n == 1 else s // self.index.itemsize for n, s in zip(self.index.shape, self.index.strides))

    @property
    def constant(self) -> NDArray[Any] | None:
        """The values, if the tensor is constant."""
        return None if self.buffer.values is None else self.buffer.values.reshape(-1)[self.index]

    def broadcast(self, shape: Sequence[int]) -> View:
        """Return the tensor repeated to a shape, without a copy."""
        return View(self.buffer, np.broadcast_to(self.index, tuple(shape)))


@dataclass(frozen=True, eq=False)
class Step:
    """One operator that computes."""

    operator: str
    """Its ONNX name."""
    node: str
    """Name of the node, for comments and errors."""
    inputs: tuple[View | None, ...]
    output: View
    attributes: Mapping[str, Any]

    def input(self, number: int) -> View:
        """Return an input that the operator needs."""
        view = self.inputs[number]
        assert view is not None
        return view

    def optional(self, number: int) -> View | None:
        """Return an input that may be left out."""
        return self.inputs[number] if number < len(self.inputs) else None


@dataclass(frozen=True, eq=False)
class Program:
    """All steps, in order, and what goes in and out."""

    inputs: tuple[Buffer, ...]
    states: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    outputs: dict[str, View]
    """By the name in the contract."""
    next_states: dict[str, View]
    """By the name of the state's buffer."""
    scratch: dict[str, int] = field(default_factory=dict)
    """Elements of scratch memory by kind."""

    @property
    def constants(self) -> tuple[Buffer, ...]:
        """The constants that the steps and results read, each once."""
        views = [view for step in self.steps for view in step.inputs if view is not None]
        views += [*self.outputs.values(), *self.next_states.values()]
        return tuple({id(v.buffer): v.buffer for v in views if v.buffer.place is Place.CONSTANT}.values())
