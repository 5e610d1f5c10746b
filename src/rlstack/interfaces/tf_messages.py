"""Messages of ``/tf`` and ``/tf_static``, ``tf2_msgs/TFMessage``, to and from serialized data without tf2_msgs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from rlstack.errors import MalformedMessage
from rlstack.interfaces import cdr
from rlstack.interfaces.messages import NANOSECONDS

_HEADER = b"\x00\x01\x00\x00"
"""Of plain little-endian CDR; alignment counts from its end."""
_STAMP, _LENGTH, _POSE = struct.Struct("<iI"), struct.Struct("<I"), struct.Struct("<7d")
_LEAST = 76
"""Bytes of a transform between frames of one letter."""

Numbers = tuple[float, float, float, float, float, float, float]
"""x, y, z, m, and a unit quaternion's x, y, z, w: the pose of the child frame in its parent."""
IDENTITY: Numbers = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Transform:
    """One transform of a message.

    Args:
        parent: ``header.frame_id``.
        child: ``child_frame_id``.
        pose: Pose of the child in the parent.
        stamp_ns: ``header.stamp``.
    """

    parent: str
    child: str
    pose: Numbers = IDENTITY
    stamp_ns: int = 0


class TfMessage:
    """A serialized message between given frames that is refilled.

    Args:
        transforms: Its initial content.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        data = bytearray(_HEADER + _LENGTH.pack(len(transforms)))
        self._at: list[tuple[int, int]] = []
        for transform in transforms:
            _align(data, 4)
            stamp = len(data)
            data += _STAMP.pack(0, 0)
            for name in (transform.parent, transform.child):
                _align(data, 4)
                text = name.encode() + b"\0"
                data += _LENGTH.pack(len(text)) + text
            _align(data, 8)
            self._at.append((stamp, len(data)))
            data += _POSE.pack(*transform.pose)
        self._data = data
        for k, transform in enumerate(transforms):
            self.fill(k, transform.stamp_ns, transform.pose)

    def fill(self, k: int, stamp_ns: int, pose: Sequence[float]) -> None:
        """Set stamp, ns, and pose of transform ``k``."""
        stamp, place = self._at[k]
        _STAMP.pack_into(self._data, stamp, *divmod(stamp_ns, NANOSECONDS))
        _POSE.pack_into(self._data, place, *pose)

    @property
    def data(self) -> bytes:
        """The serialized message."""
        return bytes(self._data)


def read_tf(data: bytes) -> list[Transform]:
    """Return the transforms of a serialized message; raise :class:`MalformedMessage` if it is none."""
    if not cdr.readable(data):
        raise MalformedMessage("it is not in plain little-endian CDR, as ROS 2 writes it on x86-64 and ARM")
    try:
        return _read(data)
    except (struct.error, ValueError) as error:
        raise MalformedMessage(f"its {len(data)} bytes are no TFMessage") from error


def _read(data: bytes) -> list[Transform]:
    (count,) = _LENGTH.unpack_from(data, 4)
    if count * _LEAST > len(data):
        raise ValueError
    found, o = [], 8
    for _ in range(count):
        o = _aligned(o, 4)
        sec, nanosec = _STAMP.unpack_from(data, o)
        parent, o = _text(data, o + 8)
        child, o = _text(data, _aligned(o, 4))
        o = _aligned(o, 8)
        found.append(Transform(parent, child, _POSE.unpack_from(data, o), sec * NANOSECONDS + nanosec))
        o += _POSE.size
    return found


def _text(data: bytes, o: int) -> tuple[str, int]:
    (size,) = _LENGTH.unpack_from(data, o)
    end = o + 4 + size
    if size < 1 or end > len(data) or data[end - 1]:
        raise ValueError
    return data[o + 4 : end - 1].decode(), end


def _aligned(o: int, size: int) -> int:
    return (o - 4 + size - 1) // size * size + 4


def _align(data: bytearray, size: int) -> None:
    data += bytes(_aligned(len(data), size) - len(data))
