"""A SpaceMouse, read with the library pyspacemouse through hidapi.

Moving the cap takes control; a moment after it is released, control returns.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.hardware.devices import SAVE, Device, TeleopInput
from rlstack.kinds.manipulator.spec import Manipulator

DEAD = 0.05
"""Dead zone, as a share of the cap's travel: it does not come to rest at exactly 0."""

LINGER_S = 0.5
"""How long the operator stays in control after the cap is released."""

_MOST = 64
"""Most reports read at once; one arrives about every 8 ms while the cap moves."""


class SpaceMouse(Device):
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        where: Its ``/dev/hidraw`` file; by default the first one found.
        robot: The robot to teleoperate.
        opened: A ``pyspacemouse.SpaceMouseDevice`` that is already open.
    """

    live = True
    keys = (
        "push, lift, turn and tilt the cap: the tool does the same, and the hand leads while it is moved\n"
        "left button closes the gripper, the right one opens it, both: good, next    Ctrl-C stop"
    )

    def __init__(self, where: str, robot: Manipulator, opened: Any = None) -> None:
        self._where, self._device = where, opened
        self._gripper, self._moved_at, self._down = 0.0, -1e9, (False, False)

    def open(self) -> None:
        """Find and open the device."""
        if self._device is not None:
            return
        try:
            pyspacemouse = importlib.import_module("pyspacemouse")
        except Exception as error:  # easyhid raises arbitrary errors if the library hidapi is missing
            raise UserError(
                f"A SpaceMouse needs pyspacemouse and the system library hidapi ({error}): pip install"
                " 'rlstack[teleop]', and on Debian or Ubuntu apt install libhidapi-hidraw0."
            ) from error
        options = {"axis_convention": pyspacemouse.AxisConvention.ROS}
        try:
            found = pyspacemouse.open_by_path(self._where, **options) if self._where else pyspacemouse.open(**options)
        except Exception as error:
            raise UserError(
                f"No SpaceMouse can be opened ({error}): plug it in, and let your user read /dev/hidraw* (a udev rule)."
            ) from error
        if found is None:
            raise UserError("No SpaceMouse was found: plug it in.")
        self._device = found

    def read(self) -> TeleopInput:
        """Return the input of cap and buttons."""
        if not self._device.connected:
            raise UserError("The SpaceMouse is gone: plug it in again.")
        before = None
        for _ in range(_MOST):  # one report at a time; without a new one, its time stays the same
            state = self._device.read()
            if state.t == before:
                break
            before = state.t
        cap = np.array([state.x, state.y, state.z, state.roll, state.pitch, state.yaw], dtype=float)
        motion = np.sign(cap) * np.clip((np.abs(cap) - DEAD) / (1.0 - DEAD), 0.0, 1.0)
        left, right = bool(state.buttons[0]), bool(state.buttons[-1])
        both = left and right and self._down != (True, True)
        # on the press only: of two buttons released one after the other, the second must not command the gripper
        if left and not right and not self._down[0]:
            self._gripper = -1.0
        elif right and not left and not self._down[1]:
            self._gripper = 1.0
        self._down = (left, right)
        now = time.monotonic()
        if motion.any() or left or right:
            self._moved_at = now
        leads = now - self._moved_at < LINGER_S
        return TeleopInput(motion[:3], motion[3:], self._gripper, leads, events=(SAVE,) if both else ())

    def close(self) -> None:
        """Close the device."""
        if self._device is not None:
            self._device.close()
            self._device = None


DEVICE = SpaceMouse
