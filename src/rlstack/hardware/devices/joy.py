"""A gamepad read through ROS: messages on ``joy`` (sensor_msgs/Joy), from any machine."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.hardware.devices import TeleopInput, refuse_where
from rlstack.hardware.devices._pad import Pad
from rlstack.kinds.manipulator.spec import Manipulator

GONE_S = 0.5
"""Timeout without messages, after which the pad commands no motion; ROS's joy repeats messages at 20 Hz."""


class Joy(Pad):
    """See :class:`rlstack.hardware.devices.Device`; the teleoperation node passes it the messages of its topic.

    Args:
        where: Must be empty: remap the topic instead.
        robot: The robot to teleoperate.
    """

    topic = ("joy", "sensor_msgs/msg/Joy")

    def __init__(self, where: str, robot: Manipulator) -> None:
        refuse_where("joy", where)
        super().__init__()
        self._axes: list[float] = []
        self._buttons: list[int] = []
        self._heard = -math.inf

    def open(self) -> None:
        """Wait for messages."""

    def hear(self, message: Any) -> None:
        """Store a ``sensor_msgs/Joy``."""
        self._axes, self._buttons = list(message.axes), list(message.buttons)
        self._heard = time.monotonic()

    def read(self) -> TeleopInput:
        """Return the input of the last message; after a timeout, no motion and unchanged control."""
        operator = self.input(self._axes, self._buttons)
        if time.monotonic() - self._heard < GONE_S:
            return operator
        return replace(operator, linear=np.zeros(3), angular=np.zeros(3))

    def close(self) -> None:
        """Do nothing."""


DEVICE = Joy
