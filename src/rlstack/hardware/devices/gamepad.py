"""A gamepad, by the joystick interface of the Linux kernel (linux/joystick.h): 8 bytes for each change."""

from __future__ import annotations

import os
import select
import struct

from rlstack.errors import UserError
from rlstack.hardware.devices import TeleopInput
from rlstack.hardware.devices._pad import KEYS, Pad
from rlstack.kinds.manipulator.spec import Manipulator

EVENT = struct.Struct("<IhBB")
"""Time, ms; value; type; number."""
BUTTON, AXIS, INITIAL = 0x01, 0x02, 0x80
FULL = 32767.0

FIRST = "/dev/input/js0"


class Gamepad:
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        where: Its file; ``/dev/input/js0`` if left out.
        robot: What it leads.
    """

    live = True
    keys = KEYS

    def __init__(self, where: str, robot: Manipulator) -> None:
        self._path, self._file = where or FIRST, -1
        self._pad, self._axes, self._buttons, self._part = Pad(), [0.0] * 8, [0] * 16, b""

    def open(self) -> None:
        """Open its file."""
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise UserError(
                f"The gamepad {self._path} cannot be read ({error.strerror}): plug it in, give another with"
                " gamepad:FILE, or let ROS's joy node read it and use the device joy."
            ) from error

    def read(self) -> TeleopInput:
        """Return what sticks and buttons say."""
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
        return self._pad.hand(self._axes, self._buttons)

    def forget(self) -> None:
        """Tell the gripper nothing until a button does."""
        self._pad.forget()

    def close(self) -> None:
        """Close its file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _take(self, data: bytes) -> None:
        data = self._part + data
        whole = len(data) - len(data) % EVENT.size
        self._part = data[whole:]
        for _, value, kind, number in EVENT.iter_unpack(data[:whole]):
            kind &= ~INITIAL  # how things are when it is opened comes as changes, too
            if kind == AXIS and number < len(self._axes):
                # the kernel counts to the right and down, ROS's joy and a hand to the left and up; triggers as they are
                sign = 1.0 if number in (2, 5) else -1.0
                self._axes[number] = sign * max(-1.0, value / FULL)
            elif kind == BUTTON and number < len(self._buttons):
                self._buttons[number] = value


DEVICE = Gamepad
