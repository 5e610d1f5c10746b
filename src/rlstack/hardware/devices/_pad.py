"""Gamepads: axes and buttons of an Xbox pad, as Linux and ROS's joy number them, to operator input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rlstack.hardware.devices import DISCARD, SAVE, STOP, Device, TeleopInput

DEAD = 0.1
"""Dead zone: sticks do not return exactly to 0."""

_CLOSE, _OPEN, _DISCARD, _SAVE, _TAKE, _STOP = 0, 1, 2, 3, 4, 6


class Pad(Device):
    """Base class of gamepads; the operator is in control while LB is held."""

    live: ClassVar[bool] = True
    keys: ClassVar[str] = (
        "left stick  forward, back, left, right    right stick  up, down, turn    cross  tilt\n"
        "A close, B open the gripper    hold LB: take over    X discard    Y good, next    Back stop"
    )

    def __init__(self) -> None:
        self._gripper = 0.0
        self._down: set[int] = set()

    def input(self, axes: Sequence[float], buttons: Sequence[int]) -> TeleopInput:
        """Return the operator's input.

        Args:
            axes: Left stick left and up, left trigger, right stick left and up, right trigger, D-pad left and up.
            buttons: A, B, X, Y, left, right shoulder, Back, ...
        """
        stick = [_alive(float(axes[k])) if k < len(axes) else 0.0 for k in range(8)]
        down = {k for k, button in enumerate(buttons) if button}
        pressed, self._down = down - self._down, down
        if _CLOSE in pressed or _OPEN in pressed:
            self._gripper = -1.0 if _CLOSE in pressed else 1.0
        events = ((_SAVE, SAVE), (_DISCARD, DISCARD), (_STOP, STOP))
        return TeleopInput(
            linear=np.array([stick[1], stick[0], stick[4]]),
            angular=np.array([-stick[6], stick[7], stick[3]]),
            gripper=self._gripper,
            intervene=_TAKE in down,
            events=tuple(event for button, event in events if button in pressed),
        )


def _alive(value: float) -> float:
    """Return a stick's value without the dead zone, rescaled to reach 1 at the end."""
    size = max(0.0, abs(value) - DEAD) / (1.0 - DEAD)
    return float(np.copysign(min(size, 1.0), value)) if size else 0.0
