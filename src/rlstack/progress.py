"""Lines on standard error that say how far something is that takes longer than some seconds."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OnStage = Callable[[str, float, int], None]
"""Takes the name of a stage, what is done of it, and of how much; something may be done in part."""

AFTER_S = 5.0
"""Time after which a reader wants to know what is going on."""

EVERY_S = 10.0
"""Between two lines."""
_HOURS_FROM_S = 100 * 60


def duration(seconds: float) -> str:
    """Return a time for readers, such as ``40 s``, ``3:20 min`` or ``2:05 h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < _HOURS_FROM_S:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def say(line: str) -> None:
    """Write a line on standard error."""
    print(line, file=sys.stderr, flush=True)


_stage_said_s = -math.inf
"""When a stage last said how far it is."""


class StageLines:
    """Says how far each stage is, with an estimate of what is left of it.

    Args:
        say: Takes a line.
        every_s: Least time between two lines of a stage, s.
        after_s: Time before the first line of a stage, s: what is over sooner is not mentioned.
    """

    def __init__(self, say: Callable[[str], None] = say, every_s: float = EVERY_S, after_s: float = 0.0) -> None:
        self._say, self._every_s, self._after_s = say, every_s, after_s
        self._stage, self._first, self._begun_s, self._due_s = "", 0.0, 0.0, 0.0
        self._said = self._over = False

    def __call__(self, stage: str, done: float, count: int) -> None:
        """Take the progress of a stage."""
        global _stage_said_s
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._first, self._begun_s, self._due_s = stage, done, now, now + self._after_s
            self._said, self._over = not self._after_s, False
        if self._over or (now < self._due_s and not (done >= count and self._said)):
            return
        self._due_s, self._said, self._over = now + self._every_s, True, done >= count
        left = ""
        if self._first < done < count:
            left = f", about {duration((now - self._begun_s) / (done - self._first) * (count - done))} left"
        _stage_said_s = now
        self._say(f"{stage}: {int(done):,}/{count:,}{left}")


@contextmanager
def working(what: str, expected_s: float | None = None, say: Callable[[str], None] = say) -> Iterator[None]:
    """Say what is going on inside the context, and how long it has taken, if it takes longer than :data:`AFTER_S`.

    For work that does not say how far it is; while a stage of it does, :class:`StageLines` alone speaks.

    Args:
        what: Such as ``restoring the run``.
        expected_s: How long it takes as a rule; None: nobody knows.
        say: Takes a line.
    """
    over, begun_s = threading.Event(), time.monotonic()

    def report() -> None:
        wait_s = AFTER_S
        while not over.wait(wait_s):
            now, wait_s = time.monotonic(), EVERY_S
            if now - _stage_said_s < 2.0 * EVERY_S:
                continue
            so_far_s = now - begun_s
            left_s = 0.0 if expected_s is None else expected_s - so_far_s
            left = f", about {duration(left_s)} left" if left_s >= 1.0 else ""
            say(f"{what}: {duration(so_far_s)} so far{left}")

    threading.Thread(target=report, daemon=True, name="progress").start()
    try:
        yield
    finally:
        over.set()
