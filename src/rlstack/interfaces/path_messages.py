"""Goal paths: ``nav_msgs/Path`` to and from arrays, also from serialized data at once.

Deserializing a thousand poses takes longer than a control period.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import NANOSECONDS, pose_message, seconds_to_ns, set_stamp, stamp_to_ns
from rlstack.interfaces.signals import DYNAMIC

_BODY = 4
"""Bytes before the data (the encapsulation); alignment counts from its end."""

_NUMBERS = 7
"""Values of a pose: x, y, z and a quaternion's x, y, z, w, all float64."""

_FAR_NS = 60 * NANOSECONDS
"""Times of a path that are further from now than this are clamped to it: the robot rests at its end or start anyway,
and in float32, which graphs use, distant times would be equal from point to point."""

_UNIT_WITHIN = 1e-3
"""Tolerance of a quaternion's length from 1: drivers send float32 and round."""


@dataclass(frozen=True)
class GoalPath:
    """The validated content of a ``nav_msgs/Path``.

    Args:
        stamp_ns: (points,) when each pose is due, ns, increasing.
        position: (points, 3) m in ``odom``, or in ``frames``.
        orientation: (points, 4) unit quaternions xyzw, ``base_link`` in that frame.
        frames: The frame of each pose, or one for all, as in the message; empty: ``odom``.
    """

    stamp_ns: NDArray[np.int64]
    position: Array
    orientation: Array
    frames: tuple[str, ...] = ("",)

    def signals(self, stamp_ns: int) -> dict[str, Array]:
        """Return ``path_time``, ``path_position`` and ``path_orientation`` at ``stamp_ns``.

        Args:
            stamp_ns: Stamp of the observation that a step answers, ns.
        """
        first, last = int(self.stamp_ns[0]), int(self.stamp_ns[-1])
        now = min(max(stamp_ns, first - _FAR_NS), last + _FAR_NS)
        return {
            "path_time": np.asarray((self.stamp_ns - now) / NANOSECONDS, dtype=np.float64),
            "path_position": self.position,
            "path_orientation": self.orientation,
        }


def read_path(message: Any) -> GoalPath:
    """Return the content of a ``nav_msgs/Path``.

    Raises:
        ValueError: It has too few poses, stamps that do not increase, a position that is not finite, or an orientation
            that is not a unit quaternion; the text says which pose.
    """
    poses = message.poses
    frames = [p.header.frame_id or message.header.frame_id for p in poses]
    stamp_ns = np.array([stamp_to_ns(p.header.stamp) for p in poses], dtype=np.int64)
    places, turns = [p.pose.position for p in poses], [p.pose.orientation for p in poses]
    position = np.array([(v.x, v.y, v.z) for v in places], dtype=np.float64)
    orientation = np.array([(q.x, q.y, q.z, q.w) for q in turns], dtype=np.float64)
    return _checked(frames, stamp_ns, position, orientation)


def _checked(frames: Sequence[str], stamp_ns: NDArray[np.int64], position: Array, orientation: Array) -> GoalPath:
    """Return the path of these arrays and ``frames``, of the poses; raise ``ValueError`` as :func:`read_path`."""
    least, count = DYNAMIC["points"], len(stamp_ns)
    if count < least:
        raise ValueError(f"A path of {count} poses was refused: it needs at least {least}.")
    with np.errstate(over="ignore"):
        length = np.linalg.norm(orientation, axis=1)
    for bad, why in (
        (np.concatenate([[False], np.diff(stamp_ns) <= 0]), "its stamp is not after that of the pose before"),
        (~np.isfinite(position).all(axis=1), "its position is not finite"),
        (~(np.abs(length - 1.0) < _UNIT_WITHIN), "its orientation is not a unit quaternion"),
    ):
        if bad.any():
            raise ValueError(f"A path was refused at pose {int(np.argmax(bad))} (of 0 to {count - 1}): {why}.")
    return GoalPath(stamp_ns, position, orientation, tuple(frames if len(set(frames)) > 1 else frames[:1]))


def path_message(
    time_s: Array, position: Array, orientation: Array, *, start_ns: int = 0, frame: str = topics.WORLD_FRAME
) -> Any:
    """Return a ``nav_msgs/Path`` whose poses are stamped ``start_ns`` plus their times.

    Args:
        time_s: (points,) s after ``start_ns``, when each pose is due.
        position: (points, 3) m.
        orientation: (points, 4) unit quaternions xyzw.
        start_ns: The time that ``time_s`` counts from, on the clock of the observations' stamps.
        frame: ``header.frame_id`` of the path and of every pose.

    Raises:
        ValueError: The shapes do not match.
    """
    shape = np.shape(time_s)
    if len(shape) != 1 or np.shape(position) != (*shape, 3) or np.shape(orientation) != (*shape, 4):
        raise ValueError(
            f"a path of {shape}, {np.shape(position)} and {np.shape(orientation)} is not allowed: must be (points,),"
            " (points, 3) and (points, 4)."
        )
    message = topics.type_of(topics.GOAL_PATH)()
    set_stamp(message.header.stamp, start_ns)
    message.header.frame_id = frame
    for after_s, place, turn in zip(time_s, np.asarray(position, dtype=float), np.asarray(orientation, dtype=float)):
        due_ns = start_ns + seconds_to_ns(float(after_s))
        message.poses.append(pose_message(place, turn, stamp_ns=due_ns, frame=frame))
    return message


def read_path_data(data: bytes) -> tuple[int, GoalPath]:
    """Return stamp, ns, and content of a serialized ``nav_msgs/Path``; raise ``ValueError`` as :func:`read_path`."""
    kind = topics.type_of(topics.GOAL_PATH)
    data = cdr.plain(data, kind)
    if (found := _regular(data)) is not None:
        return found
    message = cdr.deserialize(data, kind)
    return stamp_to_ns(message.header.stamp), read_path(message)


def _regular(data: bytes) -> tuple[int, GoalPath] | None:
    """Read a path whose poses all have the same frame, and so the same size; None if they do not."""
    try:
        found = _rows(data)
    except (struct.error, ValueError):  # it is cut short, or its lengths are wrong: the middleware decides
        return None
    if found is None:
        return None
    start_ns, frame, first, poses = found
    stamp_ns = np.concatenate([p["sec"].astype(np.int64) * NANOSECONDS + p["nanosec"] for p in (first, poses)])
    numbers = np.concatenate([first["numbers"], poses["numbers"]])
    frames = (_text(first["frame"].tobytes()) or frame,)
    return start_ns, _checked(frames, stamp_ns, numbers[:, :3], numbers[:, 3:])


def _rows(data: bytes) -> tuple[int, str, np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Return a regular path's stamp, ns, its frame, its first pose and its others; None if it is not regular."""
    sec, nanosec, letters = struct.unpack_from("<iII", data, _BODY)
    end = 12 + letters
    frame = _text(data[_BODY + 12 : _BODY + end])
    start = _aligned(end, 4)
    (count,) = struct.unpack_from("<I", data, _BODY + start)
    start += 4
    if count < 2:
        return None
    (letters,) = struct.unpack_from("<I", data, _BODY + start + 8)
    if letters > len(data):
        return None
    first = _poses(data, start, 1, _aligned(start + 12 + letters, 8) - start, letters)
    # Whatever precedes the first pose, the others start at a float64 boundary.
    second = start + first.dtype.itemsize
    apart = _aligned(12 + letters, 8)
    if not 0 <= len(data) - _BODY - second - (count - 1) * (apart + 8 * _NUMBERS) < 4:
        return None
    poses = _poses(data, second, count - 1, apart, letters)
    if (poses["letters"] != letters).any() or (poses["frame"] != first["frame"]).any():
        return None
    return sec * NANOSECONDS + nanosec, frame, first, poses


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
