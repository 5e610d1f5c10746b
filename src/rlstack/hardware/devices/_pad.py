"""Mapping from gamepad axes and buttons (an Xbox pad, as Linux and ROS's joy number them) to operator input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.hardware.devices import DISCARD, SAVE, STOP, TeleopInput

DEAD = 0.1
"""Dead zone: sticks do not return exactly to 0."""

KEYS = (
    "left stick  forward, back, left, right    right stick  up, down, turn    cross  tilt\n"
    "A close, B open the gripper    hold LB: take over    X discard    Y good, next    Back stop"
)

_CLOSE, _OPEN, _DISCARD, _SAVE, _TAKE, _STOP = 0, 1, 2, 3, 4, 6


class Pad:
    """Maps a gamepad's axes and buttons to :class:`TeleopInput`.

    Args:
        held: Whether a button must be held to take control; otherwise the pad is always in control.
    """

    def __init__(self, held: bool = True) -> None:
        self._held, self._gripper = held, 0.0
        self._down: set[int] = set()

    def forget(self) -> None:
        """Leave the gripper alone until a button is pressed."""
        self._gripper = 0.0

    def hand(self, axes: Sequence[float], buttons: Sequence[int]) -> TeleopInput:
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
        said = tuple(word for button, word in ((_SAVE, SAVE), (_DISCARD, DISCARD), (_STOP, STOP)) if button in pressed)
        return TeleopInput(
            linear=np.array([stick[1], stick[0], stick[4]]),
            angular=np.array([-stick[6], stick[7], stick[3]]),
            gripper=self._gripper,
            intervene=not self._held or _TAKE in down,
            said=said,
        )


def _alive(value: float) -> float:
    """Return a stick's value without the dead zone, rescaled to reach 1 at the end."""
    size = max(0.0, abs(value) - DEAD) / (1.0 - DEAD)
    return float(np.copysign(min(size, 1.0), value)) if size else 0.0
