"""The keyboard, read from the terminal that runs the command.

A terminal reports key presses and repeats them while a key is held, but never reports a release. So a key counts as
held for a while after each press, longer after the first, because terminals wait before they repeat.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.hardware.devices import DISCARD, SAVE, STOP, Device, TeleopInput, refuse_where
from rlstack.kinds.manipulator.spec import Manipulator

FIRST_S, REPEATED_S = 0.3, 0.12
"""How long a key counts as held after its first press and after a repeat; terminals repeat 25 to 40 times a second
after 0.25 to 0.6 s."""

_AXES = (("w", "s"), ("a", "d"), ("r", "f"), ("u", "j"), ("i", "k"), ("q", "e"), ("up", "down"), ("left", "right"))
MOVES = {key: (axis % 6, sign) for axis, keys in enumerate(_AXES) for key, sign in zip(keys, (1.0, -1.0))}
"""By key: the axis (x, y, z, then the rotations about them) and the direction."""

_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_SEQUENCE = re.compile(r"\x1b(?:\[([0-9;]*)[ -/]*([@-~])|O([0-9]*)([@-~]))")
"""Escape sequences of keys without a character (ECMA-48; xterm's control sequences): numbers, the second of which
is 2 with Shift, and a letter."""
_SHIFT = "2"
_EVENTS = {"\r": SAVE, "\n": SAVE, "\x7f": DISCARD, "\b": DISCARD, "\x1b": STOP, "\x03": STOP, "\x04": STOP}


class Keyboard(Device):
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        where: Must be empty.
        robot: The robot to teleoperate.
        terminal: File descriptor of the terminal; standard input by default.
    """

    live = True
    keys = (
        "w s  forward, back    a d  left, right    r f  up, down\n"
        "q e  turn about the vertical    u j, i k  tilt    Shift: a quarter as fast\n"
        "c o  close, open the gripper (Space: the other)    t  take over, hand back\n"
        "Enter  good, next    Backspace  discard    Esc  stop"
    )

    def __init__(self, where: str, robot: Manipulator, terminal: int | None = None) -> None:
        refuse_where("keyboard", where)
        self._terminal = sys.stdin.fileno() if terminal is None and sys.stdin else terminal
        self._before: Any = None
        self._until: dict[tuple[int, float], float] = {}
        self._gripper, self._intervene = 0.0, True
        self._rest = ""

    def open(self) -> None:
        """Switch the terminal to unbuffered input without echo."""
        import termios
        import tty

        if self._terminal is None or not os.isatty(self._terminal):
            raise UserError(
                "The keyboard is read from a terminal, and standard input is none: run this in a terminal, or use"
                " another device."
            )
        self._before = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal)

    def read(self) -> TeleopInput:
        """Return the input of the keys."""
        now, events = time.monotonic(), []
        for key in self._keys():
            if key in _EVENTS:
                events.append(_EVENTS[key])
            elif key == "t":
                self._intervene = not self._intervene
            elif key in ("c", "o", " "):
                self._gripper = {"c": -1.0, "o": 1.0}.get(key, 1.0 if self._gripper < 0 else -1.0)
            elif (move := MOVES.get(key.lower())) is not None:
                slow = 0.25 if key[0].isupper() else 1.0
                held = (move[0], slow * move[1])
                again = self._until.get(held, 0.0) > now - FIRST_S
                self._until[held] = now + (REPEATED_S if again else FIRST_S)
        self._until = {move: until for move, until in self._until.items() if until > now}
        motion = np.zeros(6)
        for axis, side in self._until:
            motion[axis] = side
        return TeleopInput(motion[:3], motion[3:], self._gripper, self._intervene, events=tuple(events))

    def close(self) -> None:
        """Restore the terminal's settings."""
        if self._before is not None and self._terminal is not None:
            import termios

            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
            self._before = None

    def _keys(self) -> list[str]:
        assert self._terminal is not None
        text = self._rest
        while select.select([self._terminal], [], [], 0.0)[0]:
            try:
                data = os.read(self._terminal, 1024)
            except OSError:
                data = b""
            if not data:
                raise UserError("The terminal is closed.")
            text += data.decode("utf-8", "ignore")
        self._rest = ""
        found = []
        while text:
            if (sequence := _SEQUENCE.match(text)) is not None:
                arrow = _ARROWS.get(sequence[2] or sequence[4], "")
                shifted = (sequence[1] or sequence[3] or "").rpartition(";")[2] == _SHIFT
                found.append(arrow.capitalize() if shifted else arrow)
                text = text[sequence.end() :]
            else:
                found.append(text[0])
                text = text[1:]
        return [key for key in found if key]


DEVICE = Keyboard
