"""A gamepad, read through the Linux kernel's joystick interface (linux/joystick.h): 8 bytes per event."""

from __future__ import annotations

import os
import select
import struct

from rlstack.errors import UserError
from rlstack.hardware.devices import TeleopInput
from rlstack.hardware.devices._pad import Pad
from rlstack.kinds.manipulator.spec import Manipulator

EVENT = struct.Struct("<IhBB")
"""Event fields: time in ms, value, type, number."""
BUTTON, AXIS, INITIAL = 0x01, 0x02, 0x80
FULL = 32767.0

FIRST = "/dev/input/js0"


class Gamepad(Pad):
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        where: Device file; ``/dev/input/js0`` by default.
        robot: The robot to teleoperate.
    """

    def __init__(self, where: str, robot: Manipulator) -> None:
        super().__init__()
        self._path, self._file = where or FIRST, -1
        self._axes, self._buttons, self._part = [0.0] * 8, [0] * 16, b""

    def open(self) -> None:
        """Open the device file."""
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise UserError(
                f"The gamepad {self._path} cannot be read ({error.strerror}): plug it in, give another with"
                " gamepad:FILE, or let ROS's joy node read it and use the device joy."
            ) from error

    def read(self) -> TeleopInput:
        """Return the input of sticks and buttons."""
        while select.select([self._file], [], [], 0.0)[0]:
            try:
                data = os.read(self._file, 64 * EVENT.size)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                raise UserError(f"The gamepad {self._path} is gone: plug it in again.")
            self._take(data)
        return self.input(self._axes, self._buttons)

    def close(self) -> None:
        """Close the device file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _take(self, data: bytes) -> None:
        data = self._part + data
        whole = len(data) - len(data) % EVENT.size
        self._part = data[whole:]
        for _, value, kind, number in EVENT.iter_unpack(data[:whole]):
            kind &= ~INITIAL  # the initial state arrives as events, too
            if kind == AXIS and number < len(self._axes):
                # the kernel's axes point right and down, those of ROS's joy and TeleopInput left and up; triggers agree
                sign = 1.0 if number in (2, 5) else -1.0
                self._axes[number] = sign * max(-1.0, value / FULL)
            elif kind == BUTTON and number < len(self._buttons):
                self._buttons[number] = value


DEVICE = Gamepad
