"""Read a serialized path at once: deserializing a thousand poses takes longer than a control period."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.interfaces.signal_reader import GoalPath, checked_path, read_path

_BODY = 4
"""Bytes before the data (the encapsulation); alignment counts from its end."""

_NUMBERS = 7
"""Values of a pose: x, y, z and a quaternion's x, y, z, w, all float64."""


def read_path_data(data: bytes) -> tuple[int, GoalPath]:
    """Return the stamp of a serialized ``nav_msgs/Path`` in ns, and its content.

    Raises:
        ValueError: The path is invalid; see :func:`rlstack.interfaces.signal_reader.read_path`.
    """
    found = _regular(data) if cdr.readable(data) else None
    if found is not None:
        return found
    from rclpy.serialization import deserialize_message

    message = deserialize_message(data, topics.type_of(topics.GOAL_PATH))
    return stamp_to_ns(message.header.stamp), read_path(message)


def _regular(data: bytes) -> tuple[int, GoalPath] | None:
    """Read a path whose poses all have the same frame, and so the same size; None if they do not."""
    sec, nanosec, letters = struct.unpack_from("<iII", data, _BODY)
    end = 12 + letters
    frame = _text(data[_BODY + 12 : _BODY + end])
    start = _aligned(end, 4)
    (count,) = struct.unpack_from("<I", data, _BODY + start)
    start += 4
    if count < 2:
        return None
    (letters,) = struct.unpack_from("<I", data, _BODY + start + 8)
    first = _poses(data, start, 1, _aligned(start + 12 + letters, 8) - start, letters)
    # Whatever precedes the first pose, the others start at a float64 boundary.
    second = start + first.dtype.itemsize
    apart = _aligned(12 + letters, 8)
    if not 0 <= len(data) - _BODY - second - (count - 1) * (apart + 8 * _NUMBERS) < 4:
        return None
    poses = _poses(data, second, count - 1, apart, letters)
    if (poses["letters"] != letters).any() or (poses["frame"] != first["frame"]).any():
        return None
    stamp_ns = np.concatenate([p["sec"].astype(np.int64) * NANOSECONDS + p["nanosec"] for p in (first, poses)])
    numbers = np.concatenate([first["numbers"], poses["numbers"]])
    frames = (frame, _text(first["frame"].tobytes()))
    return sec * NANOSECONDS + nanosec, checked_path(frames, stamp_ns, numbers[:, :3], numbers[:, 3:])


def _poses(data: bytes, start: int, count: int, numbers: int, letters: int) -> np.ndarray[Any, Any]:
    """Return ``count`` poses from ``start`` on, whose values start ``numbers`` bytes after each pose does."""
    kind = np.dtype(
        {
            "names": ["sec", "nanosec", "letters", "frame", "numbers"],
            "formats": ["<i4", "<u4", "<u4", f"V{letters}", ("<f8", (_NUMBERS,))],
            "offsets": [0, 4, 8, 12, numbers],
            "itemsize": numbers + 8 * _NUMBERS,
        }
    )
    return np.frombuffer(data, kind, count, _BODY + start)


def _aligned(offset: int, size: int) -> int:
    return -(-offset // size) * size


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("utf-8", "replace")
