"""Twists: ``geometry_msgs/TwistStamped``, or ``Twist`` for robots that need it, to and from arrays.

An array is (2,): forward m/s and turning rad/s, or (3,) for a holonomic base: forward, to the left, turning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import NANOSECONDS, set_stamp

_NUMBERS = ("linear.x", "linear.y", "angular.z")


class TwistMessage:
    """One message, of its topic's type, that is refilled for every command.

    Args:
        frame: ``header.frame_id``, the base's own frame.
        plain: Use a Twist, which has neither stamp nor frame.
    """

    def __init__(self, frame: str = topics.BODY_FRAME, *, plain: bool = False) -> None:
        self.plain = plain
        self.type: Any = topics.message_type(topics.PLAIN_TWIST) if plain else topics.type_of(topics.TWIST_COMMAND)
        self.message = self.type()
        self._twist = self.message if plain else self.message.twist
        if not plain:
            self.message.header.frame_id = frame

    def fill(self, stamp_ns: int, twist: Array) -> Any:
        """Return the message with a twist, of shape (2,) or (3,), and the stamp of the observation that it answers."""
        if np.shape(twist) not in ((2,), (3,)):
            raise ValueError(f"a twist of the shape {np.shape(twist)} is not allowed: must be (2,) or (3,)")
        if not self.plain:
            set_stamp(self.message.header.stamp, stamp_ns)
        forward, *left, turn = np.asarray(twist, dtype=np.float64).tolist()
        self._twist.linear.x, self._twist.angular.z = forward, turn
        self._twist.linear.y = left[0] if left else 0.0
        return self.message


class TwistReader:
    """Reads a serialized message's stamp and twist.

    Args:
        name: Name of the signal: ``twist`` (2,) or ``planar_twist`` (3,).
        plain: The message is a Twist.
    """

    def __init__(self, name: str = "twist", *, plain: bool = False) -> None:
        self.type: Any = topics.message_type(topics.PLAIN_TWIST) if plain else topics.type_of(topics.TWIST_COMMAND)
        self._name = name
        self._chosen = slice(None) if name == "planar_twist" else slice(None, None, 2)
        stamp = () if plain else ("header.stamp.sec", "header.stamp.nanosec")
        fields = (*stamp, *(number if plain else f"twist.{number}" for number in _NUMBERS))
        self._read = cdr.compile_reader(self.type, fields)

    def __call__(self, data: bytes) -> tuple[int | None, dict[str, Array]]:
        """Return the stamp in ns and the signal; None for a stamp that is missing or 0.

        ``linear.y`` is ignored for bases that cannot move sideways.
        """
        *stamp, x, y, turn = self._read(data)
        stamp_ns = stamp[0] * NANOSECONDS + stamp[1] if stamp else 0
        return stamp_ns or None, {self._name: np.array((x, y, turn), dtype=np.float64)[self._chosen]}
