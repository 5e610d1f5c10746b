"""Read a serialized message's stamp and signals as arrays, fast enough for control loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import cdr, topics
from rlstack.interfaces import signals as catalogue
from rlstack.interfaces.messages import NANOSECONDS, NameOrder, Reader, field_reader, leaf_fields, stamp_to_ns


class SignalReader:
    """Reads some fields of one type of stamped message, without deserializing all of it.

    Args:
        message_class: The message's class; it has a ``header``.
        fields: Dotted field by signal name, see :func:`rlstack.interfaces.messages.field_reader`.
        element_names: Order of the elements of named fields, by signal name.
        in_world: Whether only messages in the world's frame are accepted.

    Raises:
        UserError: The message has no such field, or it cannot be read as an array.
    """

    def __init__(
        self,
        message_class: Any,
        fields: Mapping[str, str],
        element_names: Mapping[str, Sequence[str]] | None = None,
        *,
        in_world: bool = False,
    ) -> None:
        self._class = message_class
        names = element_names or {}
        self._readers: dict[str, Reader] = {
            signal: field_reader(message_class, field, names.get(signal, ())) for signal, field in fields.items()
        }
        self._slices: list[tuple[str, slice]] = []
        self._named: list[tuple[str, NameOrder, int, int]] = []
        self._lists: list[tuple[str, int]] = []
        wanted = ["header.stamp.sec", "header.stamp.nanosec"]
        for signal, field in fields.items():
            parts = leaf_fields(message_class, field)
            if parts:
                self._slices.append((signal, slice(len(wanted) - 2, len(wanted) - 2 + len(parts))))
                wanted += parts
        self._numbers = len(wanted)
        for signal, field in fields.items():
            if leaf_fields(message_class, field):
                continue
            if names.get(signal):
                if "name" not in wanted:
                    wanted.append("name")
                self._named.append((signal, NameOrder(names[signal]), wanted.index("name"), len(wanted)))
                wanted.append(field)
            else:
                self._lists.append((signal, len(wanted)))
                wanted.append(field)
        if len(set(wanted)) != len(wanted):
            raise UserError(
                f"{message_class.__name__}: two signals read the same field ({', '.join(fields.values())})."
            )
        self._in_world = in_world
        if in_world:
            wanted.append("header.frame_id")
        self._read = cdr.compile_reader(message_class, wanted)

    def __call__(self, data: bytes) -> tuple[int, dict[str, Array]]:
        """Return the stamp in ns and the signals.

        Raises:
            ValueError: The elements' names differ, or the message is in another frame. No names and no values are an
                empty array.
        """
        if not cdr.readable(data):
            return self._read_ordinarily(data)
        values = self._read(data)
        if self._in_world:
            _check_frame(values[-1])
        stamp = values[0] * NANOSECONDS + values[1]
        block = np.array(values[2 : self._numbers], dtype=np.float64)
        signals = {signal: block[part] for signal, part in self._slices}
        for signal, order, n, i in self._named:
            names = partial(cdr.texts, values[n])
            signals[signal] = order.arrange(values[n], names, np.array(values[i], dtype=np.float64))
        for signal, i in self._lists:
            signals[signal] = np.array(values[i], dtype=np.float64)
        return stamp, signals

    def _read_ordinarily(self, data: bytes) -> tuple[int, dict[str, Array]]:
        from rclpy.serialization import deserialize_message

        message = deserialize_message(data, self._class)
        if self._in_world:
            _check_frame(message.header.frame_id)
        return stamp_to_ns(message.header.stamp), {signal: read(message) for signal, read in self._readers.items()}


def _check_frame(frame: str) -> None:
    if not topics.in_world(frame):
        raise ValueError(
            f"it is in the frame '{frame}': transform it and give it in {topics.WORLD_FRAME} (map or none is taken for"
            " that)"
        )


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
        position: (points, 3) m in ``odom``.
        orientation: (points, 4) unit quaternions xyzw, ``base_link`` in ``odom``.
    """

    stamp_ns: NDArray[np.int64]
    position: Array
    orientation: Array

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
        ValueError: It is in another frame, has too few poses, stamps that do not increase, a position that is not
            finite, or an orientation that is not a unit quaternion; the text says which pose.
    """
    poses = message.poses
    frames = [header.frame_id for header in (message.header, *(p.header for p in poses))]
    stamp_ns = np.array([stamp_to_ns(p.header.stamp) for p in poses], dtype=np.int64)
    places, turns = [p.pose.position for p in poses], [p.pose.orientation for p in poses]
    position = np.array([(v.x, v.y, v.z) for v in places], dtype=np.float64)
    orientation = np.array([(q.x, q.y, q.z, q.w) for q in turns], dtype=np.float64)
    return checked_path(frames, stamp_ns, position, orientation)


def checked_path(frames: Sequence[str], stamp_ns: NDArray[np.int64], position: Array, orientation: Array) -> GoalPath:
    """Return the path of these arrays, see :class:`GoalPath`.

    Args:
        frames: The frames of the path and its poses.
        stamp_ns: See :class:`GoalPath`.
        position: See :class:`GoalPath`.
        orientation: See :class:`GoalPath`.

    Raises:
        ValueError: See :func:`read_path`.
    """
    least, count = catalogue.DYNAMIC["points"], len(stamp_ns)
    if count < least:
        raise ValueError(f"A path of {count} poses was refused: it needs at least {least}.")
    for name in dict.fromkeys(frames):
        if not topics.in_world(name):
            raise ValueError(f"A path in the frame '{name}' was refused: give it in {topics.WORLD_FRAME}.")
    with np.errstate(over="ignore"):
        length = np.linalg.norm(orientation, axis=1)
    for bad, why in (
        (np.concatenate([[False], np.diff(stamp_ns) <= 0]), "its stamp is not after that of the pose before"),
        (~np.isfinite(position).all(axis=1), "its position is not finite"),
        (~(np.abs(length - 1.0) < _UNIT_WITHIN), "its orientation is not a unit quaternion"),
    ):
        if bad.any():
            raise ValueError(f"A path was refused at pose {int(np.argmax(bad))} (of 0 to {count - 1}): {why}.")
    return GoalPath(stamp_ns, position, orientation)
