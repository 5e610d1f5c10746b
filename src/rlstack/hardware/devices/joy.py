"""A gamepad that a ROS node reads already: what comes on ``joy`` (sensor_msgs/Joy), from whichever machine."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.hardware.devices import TeleopInput, refuse_where
from rlstack.hardware.devices._pad import KEYS, Pad
from rlstack.kinds.manipulator.spec import Manipulator

GONE_S = 0.5
"""Without a message for so long the pad is gone, and moves nothing any more: ROS's joy repeats it at 20 Hz."""


class Joy:
    """See :class:`rlstack.hardware.devices.Device`; the teleoperation node hands it what comes on its topic.

    Args:
        where: Nothing: topics are remapped.
        robot: What it leads.
    """

    live = True
    keys = KEYS
    topic = ("joy", "sensor_msgs/msg/Joy")

    def __init__(self, where: str, robot: Manipulator) -> None:
        refuse_where("joy", where)
        self._pad = Pad()
        self._axes: list[float] = []
        self._buttons: list[int] = []
        self._heard = 0.0

    def open(self) -> None:
        """Wait for messages."""

    def hear(self, message: Any) -> None:
        """Take a ``sensor_msgs/Joy``."""
        self._axes, self._buttons = list(message.axes), list(message.buttons)
        self._heard = time.monotonic()

    def read(self) -> TeleopInput:
        """Return what the last message says; of a pad that is gone, that nothing moves, and who led goes on leading."""
        hand = self._pad.hand(self._axes, self._buttons)
        if time.monotonic() - self._heard < GONE_S:
            return hand
        return replace(hand, linear=np.zeros(3), angular=np.zeros(3))

    def forget(self) -> None:
        """Tell the gripper nothing until a button does."""
        self._pad.forget()

    def close(self) -> None:
        """Do nothing."""


DEVICE = Joy
