"""The keyboard of the terminal that the command runs in.

A terminal says when a key goes down and repeats it while it is held, and never says when it goes up. So a key counts as
held for a while after each time it comes: longer after the first, because terminals wait before they repeat.
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
from rlstack.hardware.devices import DISCARD, SAVE, STOP, TeleopInput, refuse_where
from rlstack.kinds.manipulator.spec import Manipulator

FIRST_S, REPEATED_S = 0.3, 0.12
"""How long a key counts as held after it came, and after it came again; terminals repeat some 25 to 40 times a second
after some 0.25 to 0.6 s."""

MOVES = {
    "w": (0, 1.0),
    "s": (0, -1.0),
    "a": (1, 1.0),
    "d": (1, -1.0),
    "r": (2, 1.0),
    "f": (2, -1.0),
    "u": (3, 1.0),
    "j": (3, -1.0),
    "i": (4, 1.0),
    "k": (4, -1.0),
    "q": (5, 1.0),
    "e": (5, -1.0),
    "up": (0, 1.0),
    "down": (0, -1.0),
    "left": (1, 1.0),
    "right": (1, -1.0),
}
"""Key: which of x, y, z and the turns about them it moves, and to which side."""

_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_SEQUENCE = re.compile(r"\x1b(?:\[([0-9;]*)[ -/]*([@-~])|O([0-9]*)([@-~]))")
"""What terminals send for keys that are no character (ECMA-48; xterm's control sequences): numbers, the second of which
says Shift by 2, and a letter."""
_SHIFT = "2"
_SAID = {"\r": SAVE, "\n": SAVE, "\x7f": DISCARD, "\b": DISCARD, "\x1b": STOP, "\x03": STOP, "\x04": STOP}


class Keyboard:
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        where: Nothing.
        robot: What it leads.
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
        """Let keys come one by one, and unseen."""
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
        """Return what the keys say."""
        now, said = time.monotonic(), []
        for key in self._keys():
            if key in _SAID:
                said.append(_SAID[key])
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
        return TeleopInput(motion[:3], motion[3:], self._gripper, self._intervene, said=tuple(said))

    def forget(self) -> None:
        """Tell the gripper nothing until a key does."""
        self._gripper = 0.0

    def close(self) -> None:
        """Put the terminal back as it was."""
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
