"""Read a serialized message's stamp and signals as arrays, fast enough for control loops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import NANOSECONDS, NameOrder, leaf_fields
from rlstack.interfaces.people_messages import PeopleReader
from rlstack.interfaces.scan_geometry import ScanGeometry
from rlstack.interfaces.scan_messages import ScanReader, unplaced
from rlstack.interfaces.trajectory_messages import TrajectoryReader
from rlstack.interfaces.transform_buffer import Place, in_odom

Read = Callable[[bytes], tuple[Any, dict[str, Array]]]
"""Converts serialized data to the stamp, ns, and signals; raises ``ValueError`` for invalid data."""


class SignalReader:
    """Reads some fields of one type of stamped message, without deserializing all of it.

    Args:
        message_class: The message's class; it has a ``header``.
        fields: Dotted field by signal name, see :func:`rlstack.interfaces.messages.leaf_fields`.
        element_names: Order of the elements of named fields, by signal name.
        place: Returns the pose of the message's frame, by which the signals, a position and an orientation, are
            transformed; None: whatever frame they are in.
        same_frames: Refuse messages in other frames than the first one (``frame_id``, and ``child_frame_id`` where
            there is one), until :meth:`forget_frames`.

    Raises:
        UserError: The message has no such field, or it cannot be read as an array.
    """

    def __init__(
        self,
        message_class: Any,
        fields: Mapping[str, str],
        element_names: Mapping[str, Sequence[str]] | None = None,
        *,
        place: Place | None = None,
        same_frames: bool = False,
    ) -> None:
        names = element_names or {}
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
        self._place = place
        if place is not None:
            wanted.append("header.frame_id")
        self._frames_from = len(wanted)
        self._frames: tuple[Any, ...] = ()
        if same_frames:
            child = "child_frame_id" in message_class.get_fields_and_field_types()
            wanted += ["header.frame_id", *(["child_frame_id"] if child else [])]
        self._same_frames = same_frames
        self._read = cdr.compile_reader(message_class, wanted)

    def forget_frames(self) -> None:
        """Let the next message be in any frame."""
        self._frames = ()

    def _check_frames(self, frames: tuple[Any, ...]) -> None:
        if not self._frames:
            self._frames = frames
        elif frames != self._frames:
            was, now = ([str(name) for name in named] for named in (self._frames, frames))
            raise ValueError(f"it is in the frames {now}, and was in {was} before")

    def __call__(self, data: bytes) -> tuple[int, dict[str, Array]]:
        """Return the stamp in ns and the signals.

        Raises:
            ValueError: The elements' names differ, or the message is in another frame. No names and no values are an
                empty array.
        """
        values = self._read(data)
        stamp = values[0] * NANOSECONDS + values[1]
        if self._same_frames:
            self._check_frames(values[self._frames_from :])
        pose = None if self._place is None else self._place(values[self._frames_from - 1], stamp)
        block = np.array(values[2 : self._numbers], dtype=np.float64)
        signals = {signal: block[part] for signal, part in self._slices}
        for signal, order, n, i in self._named:
            names = partial(cdr.texts, values[n])
            signals[signal] = order.arrange(values[n], names, np.array(values[i], dtype=np.float64))
        for signal, i in self._lists:
            signals[signal] = np.array(values[i], dtype=np.float64)
        if pose is not None:
            signals = {n: pose.points(v) if len(v) == 3 else pose.turns(v) for n, v in signals.items()}
        return stamp, signals


def topic_reader(
    message_type: str,
    fields: Mapping[str, str],
    element_names: Mapping[str, Sequence[str]] | None = None,
    *,
    scan: ScanGeometry | None = None,
    scan_frames: Collection[str] = (),
    zero_is_far: bool = False,
    place: Place = in_odom,
    mount: Place = unplaced,
) -> Read:
    """Return the reader of some signals of one topic.

    Args:
        message_type: Full name, such as ``nav_msgs/msg/Odometry``.
        fields: Dotted field by signal name.
        element_names: Names of the elements of named fields, by signal name.
        scan: The wanted scan geometry.
        scan_frames: ``frames`` of :class:`ScanReader`.
        zero_is_far: ``zero_is_far`` of :class:`ScanReader`.
        place: Returns the pose of a message's frame, for people and objects.
        mount: ``place`` of :class:`ScanReader`.

    Raises:
        UserError: The message has no such field, or it cannot be read as an array.
    """
    if message_type == topics.SCAN_TYPE and scan is not None:
        (name,) = fields
        return ScanReader(scan, scan_frames, zero_is_far=zero_is_far, name=name, place=mount)
    if message_type == topics.TYPES[topics.PEOPLE]:
        read_all, wanted = PeopleReader(place), tuple(fields)

        def read(data: bytes) -> tuple[int, dict[str, Array]]:
            stamp, signals = read_all(data)
            return stamp, {name: signals[name] for name in wanted}

        return read
    if message_type == topics.TYPES[topics.JOINT_COMMAND]:
        (name,) = fields
        return TrajectoryReader((element_names or {}).get(name, ()), name=name)
    is_pose = message_type == topics.TYPES[topics.OBJECT]  # trackers may publish poses in a camera's frame
    return SignalReader(topics.message_type(message_type), fields, element_names, place=place if is_pose else None)
