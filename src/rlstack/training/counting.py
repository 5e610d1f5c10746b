"""Lines that say how far something is that comes before learning, such as recording demonstrations."""

from __future__ import annotations

import sys
import time

_EVERY_S = 10.0
"""Time between lines."""


class Counting:
    """Prints how many of a number of things are done and when the rest will be, at most every 10 s.

    Args:
        what: The things, such as ``demonstrations``.
        total: How many there will be.
        held: How many there were at the beginning.
    """

    def __init__(self, what: str, total: int, held: int = 0) -> None:
        self.what, self.total, self.held = what, total, held
        self._began = self._printed = time.monotonic()

    def __call__(self, done: int) -> None:
        """Say that so many are done."""
        now = time.monotonic()
        if now - self._printed < _EVERY_S or done <= self.held:
            return
        self._printed = now
        left = (self.total - done) * (now - self._began) / (done - self.held)
        minutes, seconds = divmod(round(left), 60)
        print(f"{self.what}: {done:,} of {self.total:,}, {minutes}:{seconds:02d} left", file=sys.stderr, flush=True)
