"""A gamepad read through ROS: messages on ``joy`` (sensor_msgs/Joy), from any machine."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.hardware.devices import TeleopInput, refuse_where
from rlstack.hardware.devices._pad import KEYS, Pad
from rlstack.kinds.manipulator.spec import Manipulator

GONE_S = 0.5
"""Timeout without messages, after which the pad commands no motion; ROS's joy repeats messages at 20 Hz."""


class Joy:
    """See :class:`rlstack.hardware.devices.Device`; the teleoperation node passes it the messages of its topic.

    Args:
        where: Must be empty: remap the topic instead.
        robot: The robot to teleoperate.
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
        """Store a ``sensor_msgs/Joy``."""
        self._axes, self._buttons = list(message.axes), list(message.buttons)
        self._heard = time.monotonic()

    def read(self) -> TeleopInput:
        """Return the input of the last message; after a timeout, no motion and unchanged control."""
        hand = self._pad.hand(self._axes, self._buttons)
        if time.monotonic() - self._heard < GONE_S:
            return hand
        return replace(hand, linear=np.zeros(3), angular=np.zeros(3))

    def forget(self) -> None:
        """Leave the gripper alone until a button is pressed."""
        self._pad.forget()

    def close(self) -> None:
        """Do nothing."""


DEVICE = Joy
