"""The Franka Hand: its width, and one motion of it after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.franka.attempt import Attempt
from rlstack.robots.joints import DrivenJoint

_PERIOD_S = 0.03
_CONNECT_S = 5.0
_STEP_M = 0.002
"""A change of the wanted width below this starts no motion: each takes some tenths of a second."""
_END_S = 3.0
_UNANSWERED: list[Any] = []
"""Grippers whose motion was never answered: franky crashes the process if one is dropped before."""
_ANY_WIDTH_M = 0.1
"""A grasp ends at whatever width it meets something, or at the wanted one."""


class Hand:
    """Follows the width that is wanted; narrower by a grasp, which presses, wider by a move.

    Args:
        library: The module ``franky``.
        host: The controller's address.
        fingers: The robot file's gripper, whose joints add up to the width.
    """

    def __init__(self, library: Any, host: str, fingers: Sequence[DrivenJoint]) -> None:
        self._fingers = fingers
        self._gripper = Attempt(lambda: library.Gripper(host)).result(_CONNECT_S)
        self._check(host)
        self._width = 0.0
        at = self._measured()
        self.state = at, 0.0 * at
        """Position and velocity of each finger, (fingers,) m and m/s."""
        self.lost = ""
        """Why it no longer answers; empty while it does."""
        self._wanted = self._told = self._width
        self._rests = True
        """Whether no motion may begin."""
        self._motion: Any = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="rlstack franka hand", daemon=True)
        self._thread.start()

    def _check(self, host: str) -> None:
        widest, said = float(self._gripper.max_width), sum(finger.upper for finger in self._fingers)
        if abs(widest - said) > 0.005:
            raise UserError(
                f"The hand at {host} says that it opens to {widest:.4f} m, and the robot file's opens to {said:.4f} m:"
                " home it in Desk (a hand that was not homed says 0), or correct the robot file."
            )

    def want(self, fingers: Array) -> None:
        """Say where the fingers (fingers,) shall be, m; the newest counts once a motion under way has ended."""
        self._wanted, self._rests = float(np.sum(fingers)), False

    def rest(self) -> None:
        """Begin no motion until the next :meth:`want`; one under way goes on to its end."""
        self._rests = True

    def close(self) -> None:
        """Forget it once a motion under way has ended; what it holds it goes on holding."""
        self._ending.set()
        self._thread.join(_END_S)
        if self._motion is not None and not self._motion.wait(_END_S):
            _UNANSWERED.append(self._gripper)

    def _measured(self) -> Array:
        self._width = float(self._gripper.width)
        return np.full(len(self._fingers), self._width / len(self._fingers))

    def _serve(self) -> None:
        last, last_s = self.state[0], time.monotonic()
        try:
            while not self._ending.wait(_PERIOD_S):
                at, now_s = self._measured(), time.monotonic()
                self.state = at, (at - last) / (now_s - last_s)
                last, last_s = at, now_s
                self._follow()
        except Exception as error:
            self.lost = f"the hand: {error}"

    def _follow(self) -> None:
        if self._motion is not None:
            if not self._motion.wait(0.0):
                return
            self._motion = None  # a grasp that met nothing is no fault
        wanted = self._wanted
        if self._rests or abs(wanted - self._told) < _STEP_M:
            return
        speed = self._fingers[0].velocity_max
        if wanted < self._width:
            force = self._fingers[0].effort_max
            self._motion = self._gripper.grasp_async(wanted, speed, force, _ANY_WIDTH_M, _ANY_WIDTH_M)
        else:
            self._motion = self._gripper.move_async(wanted, speed)
        self._told = wanted
