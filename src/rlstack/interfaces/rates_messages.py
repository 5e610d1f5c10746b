"""Body rates and collective thrust of a quadrotor: ``geometry_msgs/TwistStamped``, to and from arrays.

An array is (4,): roll, pitch and yaw rate in rad/s, and thrust per mass in m/s^2, in ``base_link``. A thrust below 0
stops the motors; 0 is the least that they give while they turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.messages import set_stamp
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import COMMANDED

NAME = "rates_thrust"
OFF = -1.0
"""The thrust that stops the motors; any number below 0 does."""


class RatesMessage:
    """One TwistStamped that is refilled for every command.

    Args:
        frame: ``header.frame_id``, the robot's own frame.
    """

    def __init__(self, frame: str = topics.BODY_FRAME) -> None:
        self.message: Any = topics.type_of(topics.RATES_COMMAND)()
        self.message.header.frame_id = frame

    def fill(self, stamp_ns: int, rates_thrust: Array) -> Any:
        """Return the message with a command (4,) and the stamp of the observation that it answers."""
        set_stamp(self.message.header.stamp, stamp_ns)
        twist = self.message.twist
        twist.angular.x, twist.angular.y, twist.angular.z, twist.linear.z = map(float, rates_thrust)
        return self.message

    def fill_off(self, stamp_ns: int) -> Any:
        """Return the message that stops the motors."""
        return self.fill(stamp_ns, np.array([0.0, 0.0, 0.0, OFF]))


class RatesReader:
    """Reads a serialized command; call it with the data."""

    def __init__(self) -> None:
        self.type: Any = topics.type_of(topics.RATES_COMMAND)
        self._read = SignalReader(self.type, {NAME: COMMANDED[NAME].field})

    def __call__(self, data: bytes) -> tuple[int, dict[str, Array]]:
        """Return the stamp, ns, and the command; no command: stop the motors."""
        stamp, command = self._read(data)
        return stamp, {} if command[NAME][3] < 0.0 else command
