"""Description of a replay buffer: its fields, capacity and lanes."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack import schema
from rlstack.errors import UserError

VERSION = 1
"""Version of the files' layout; others are refused."""

NEXT = "next_"
"""Prefix, in a batch, of the fields of the observation after a transition."""

INDEX = "index"
"""Name, in a batch, of the transitions' indices."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")


@dataclass(frozen=True)
class Field:
    """One number, vector or image of a step.

    Attributes:
        shape: Shape in one step; () for a single number.
        dtype: NumPy's name of the type, such as ``float32``, ``bool`` or ``uint8`` (images).
    """

    shape: tuple[int, ...] = schema.value(at_least=1)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        try:
            known = np.dtype(self.dtype).kind in "biuf"
        except TypeError:
            known = False
        if not known:
            raise ValueError(f"'{self.dtype}' is not a type of a field, such as float32, uint8, int64 or bool")
        if any(length < 1 for length in self.shape):
            raise ValueError(f"the shape {self.shape} of a field has no elements")

    @property
    def bytes(self) -> int:
        """Bytes of one step."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class ReplaySpec:
    """Fields and size of a replay buffer.

    Attributes:
        observations: Fields of an observation, which is stored once for the transitions before and after it.
        transitions: Fields between two observations, such as action, reward and terminated.
        capacity: Steps of all lanes together; an episode of T transitions takes T + 1.
        lanes: Episodes that can be written concurrently, such as one for each environment; each lane is a ring of
            ``capacity // lanes`` steps.
    """

    observations: dict[str, Field]
    transitions: dict[str, Field]
    capacity: int = schema.value(at_least=2, unit="steps")
    lanes: int = schema.value(1, at_least=1)

    def __post_init__(self) -> None:
        if self.capacity < 2 * self.lanes:
            raise ValueError(f"capacity {self.capacity} is less than two steps for each of {self.lanes} lanes")
        for name in (*self.observations, *self.transitions):
            if not _NAME.fullmatch(name):
                raise ValueError(f"'{name}' cannot name a field: use letters, digits, '_' and '.', a letter first")
        if not self.observations:
            raise ValueError("a replay buffer needs at least one field of the observation")
        taken = {*self.observations, *(NEXT + name for name in self.observations), INDEX}
        for name in self.transitions:
            if name in taken:
                raise ValueError(f"the transition's field '{name}' has the name of another one in a batch")

    @property
    def slots(self) -> int:
        """Steps of each lane."""
        return self.capacity // self.lanes

    @property
    def fields(self) -> dict[str, Field]:
        """All fields by name, observations first."""
        return {**self.observations, **self.transitions}

    @property
    def bytes(self) -> int:
        """Bytes on disk, which are reserved when it is created."""
        return self.slots * self.lanes * (16 + sum(field.bytes for field in self.fields.values())) + 16 * self.lanes


def fields(**given: tuple[tuple[int, ...], str]) -> dict[str, Field]:
    """Return fields from their shapes and types: ``fields(action=((7,), "float32"), reward=((), "float32"))``."""
    return {name: Field(shape, dtype) for name, (shape, dtype) in given.items()}


def to_json(spec: ReplaySpec) -> str:
    """Return ``spec`` as the text of the buffer's ``replay.json``."""
    return json.dumps({"version": VERSION, **schema.to_data(spec)}, indent=1) + "\n"


def read_spec(path: Path) -> ReplaySpec:
    """Read a buffer's ``replay.json``.

    Raises:
        UserError: It is missing, damaged, or of another version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent} is not a replay buffer: it has no {path.name}. Check the path.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): delete the folder to begin a new buffer.") from error
    version = data.pop("version", None) if isinstance(data, dict) else None
    if version != VERSION:
        raise UserError(
            f"{path}: this version reads replay buffers of layout {VERSION}, not {version}: use the version that wrote"
            " it, or delete the folder to begin a new buffer."
        )
    return schema.load(ReplaySpec, data, str(path))


def difference(held: ReplaySpec, wanted: ReplaySpec) -> str:
    """Return the first difference between two specs in words; empty if there is none."""
    if held.capacity != wanted.capacity or held.lanes != wanted.lanes:
        return f"it has {held.capacity} steps in {held.lanes} lanes, not {wanted.capacity} in {wanted.lanes}"
    for kind in ("observations", "transitions"):
        have, want = getattr(held, kind), getattr(wanted, kind)
        for name in {**have, **want}:
            if name not in have:
                return f"its {kind} lack '{name}'"
            if name not in want:
                return f"its {kind} have '{name}', which is not asked for"
            if have[name] != want[name]:
                return (
                    f"its '{name}' is {have[name].dtype}{list(have[name].shape)}, not"
                    f" {want[name].dtype}{list(want[name].shape)}"
                )
    return ""
