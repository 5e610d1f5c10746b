"""Select the reader for a topic's serialized messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces import topics
from rlstack.interfaces.laser_scans import ScanGeometry, ScanReader
from rlstack.interfaces.people_data import PeopleReader
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.trajectory_data import TrajectoryReader

Read = Callable[[bytes], tuple[Any, dict[str, NDArray[np.float64]]]]
"""Converts serialized data to the stamp, ns, and signals; raises ``ValueError`` for invalid data."""


def topic_reader(
    message_type: str,
    fields: Mapping[str, str],
    element_names: Mapping[str, Sequence[str]] | None = None,
    *,
    scan: ScanGeometry | None = None,
    scan_frames: Collection[str] = (),
    zero_is_far: bool = False,
) -> Read:
    """Return the reader of some signals of one topic.

    Args:
        message_type: Full name, such as ``nav_msgs/msg/Odometry``.
        fields: Dotted field by signal name.
        element_names: Names of the elements of named fields, by signal name.
        scan: The wanted scan geometry.
        scan_frames: ``frames`` of :class:`ScanReader`.
        zero_is_far: ``zero_is_far`` of :class:`ScanReader`.

    Raises:
        UserError: The message has no such field, or it cannot be read as an array.
    """
    if message_type == topics.SCAN_TYPE and scan is not None:
        (name,) = fields
        return ScanReader(scan, scan_frames, zero_is_far=zero_is_far, name=name)
    if message_type == topics.TYPES[topics.PEOPLE]:
        read_all, wanted = PeopleReader(), tuple(fields)

        def read(data: bytes) -> tuple[int, dict[str, NDArray[np.float64]]]:
            stamp, signals = read_all(data)
            return stamp, {name: signals[name] for name in wanted}

        return read
    if message_type == topics.TYPES[topics.JOINT_COMMAND]:
        (name,) = fields
        return TrajectoryReader((element_names or {}).get(name, ()), name=name)
    in_world = message_type == topics.TYPES[topics.OBJECT]  # trackers may publish poses in a camera's frame
    return SignalReader(topics.message_type(message_type), fields, element_names, in_world=in_world)
