"""Lines that show how far a verification is: one that changes in a terminal, one now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from shutil import get_terminal_size
from typing import TextIO

from rlstack.progress import EVERY_S, duration
from rlstack.verification.schedule import Progress

CHANGES_S = 0.1
"""Between two changes of the line in a terminal: hundreds of trials may end in a second."""

SURE_S = 2.0
"""Time of trials that the first estimate rests on."""


class ProgressLines:
    """Writes the progress of a verification, with an estimate of the time that is left.

    Args:
        stream: Where; default: standard error.
        clock: Returns the time, s.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._announced, self._shown_s, self._width, self._part = False, -EVERY_S, 0, ""

    def __call__(self, progress: Progress) -> None:
        """Show the progress."""
        stream = self._stream or sys.stderr
        terminal = stream.isatty()
        if not self._announced and progress.elapsed_s < SURE_S:
            return
        if not self._announced:
            self._announced = True
            total = duration(progress.elapsed_s + progress.left_s)
            print(f"This takes about {total}, as the first trials show.", file=stream, flush=True)
        now = self._clock()
        text = (
            f"{progress.part}: {progress.done}/{progress.count}, {duration(progress.elapsed_s)} so far,"
            f" about {duration(progress.left_s)} left"
        )
        if terminal:
            if now - self._shown_s < CHANGES_S and progress.done < progress.count:
                return
            self._shown_s = now
            text = text[: get_terminal_size().columns - 1]  # a longer one would be a new line each time
            print(f"\r{text:<{self._width}}", end="", file=stream, flush=True)
            self._width = len(text)
        elif now - self._shown_s >= EVERY_S or progress.part != self._part:
            self._shown_s, self._part = now, progress.part
            print(text, file=stream, flush=True)

    def end(self) -> None:
        """Leave the line in a terminal."""
        if self._width:
            print(file=self._stream or sys.stderr)
            self._width = 0
