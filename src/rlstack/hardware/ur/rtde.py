"""Packages of Universal Robots' Real-Time Data Exchange, version 2 of its protocol.

A package is its size (2 bytes), its type (1 byte) and what it carries, big-endian. It has no checksum, so one that
cannot be right means that the place in the stream is lost, and so is the link.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from rlstack.hardware.serial_port import LinkLost

VERSION, CONTROLLER, TEXT, DATA, OUTPUTS, INPUTS, START, PAUSE = (ord(letter) for letter in "VvMUOISP")
_SIZES = {VERSION: (4, 4), CONTROLLER: (19, 19), TEXT: (6, 600), START: (4, 4), PAUSE: (4, 4)}
_MOST = 4096
_LAYOUTS = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT32": "I",
    "INT32": "i",
    "UINT64": "Q",
    "DOUBLE": "d",
    "VECTOR3D": "3d",
    "VECTOR6D": "6d",
    "VECTOR6INT32": "6i",
    "VECTOR6UINT32": "6I",
}


def package(kind: int, carried: bytes = b"") -> bytes:
    """Return a package."""
    return struct.pack(">HB", 3 + len(carried), kind) + carried


class Packages:
    """Cuts a stream into packages."""

    def __init__(self) -> None:
        self._came = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take bytes, and return the packages that are now whole, each its type and what it carries.

        Raises:
            LinkLost: What comes is no package.
        """
        self._came += data
        found = []
        while len(self._came) >= 3:
            size, kind = struct.unpack_from(">HB", self._came)
            least, most = _SIZES.get(kind, (4, _MOST))
            if kind not in (*_SIZES, DATA, OUTPUTS, INPUTS) or not least <= size <= most:
                raise LinkLost(f"a package of type {kind} and {size} bytes is none of RTDE's")
            if len(self._came) < size:
                break
            found.append((kind, self._came[3:size]))
            self._came = self._came[size:]
        return found


class Recipe:
    """The fields of a data package, as the controller has confirmed them.

    Args:
        names: Their names.
        answer: What the controller's answer carries: the recipe's number, and the types, separated by commas.

    Raises:
        LinkLost: The answer is malformed.
        ValueError: The controller does not have a field, or another client uses it; the message names it.
    """

    def __init__(self, names: Sequence[str], answer: bytes) -> None:
        types = answer[1:].decode("ascii", "replace").split(",")
        if len(answer) < 2 or len(types) != len(names):
            raise LinkLost(f"{len(types)} types for {len(names)} fields")
        for name, kind in zip(names, types):
            if kind == "NOT_FOUND":
                raise ValueError(f"has no field {name}")
            if kind == "IN_USE":
                raise ValueError(f"says that another client uses {name}")
            if kind not in _LAYOUTS:
                raise LinkLost(f"{name} has the unknown type {kind!r}")
        self._number = answer[0]
        self._names = tuple(names)
        self._layouts = [_LAYOUTS[kind] for kind in types]
        self._layout = struct.Struct(">B" + "".join(self._layouts))

    def decode(self, carried: bytes) -> dict[str, Any]:
        """Return the fields of a data package: a number each, or a tuple of a vector.

        Raises:
            LinkLost: It is not one of this recipe, or a number is not finite.
        """
        if len(carried) != self._layout.size or carried[0] != self._number:
            raise LinkLost("a data package is not of the recipe")
        values = self._layout.unpack(carried)[1:]
        if not all(math.isfinite(one) for one in values):
            raise LinkLost("a data package has a number that is not finite")
        fields: dict[str, Any] = {}
        at = 0
        for name, layout in zip(self._names, self._layouts):
            count = int(layout[:-1] or 1)
            fields[name] = values[at] if len(layout) == 1 else values[at : at + count]
            at += count
        return fields

    def encode(self, fields: Mapping[str, float]) -> bytes:
        """Return a data package of numbers."""
        return package(DATA, self._layout.pack(self._number, *(fields[name] for name in self._names)))
