"""Deferred Ctrl-C: finish the iteration first, so that the saved state is complete."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class StopRequest:
    """Whether a stop was requested."""

    asked: bool = False


@contextmanager
def deferred_interrupt() -> Iterator[StopRequest]:
    """Turn the first SIGINT into a stop request; the second raises ``KeyboardInterrupt`` at once.

    No-op outside the main thread, which alone receives signals, and where SIGINT is ignored.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) in (
        signal.SIG_IGN,
        None,
    ):
        yield request
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.asked = True
        print(
            "\nStopping after this iteration, then saving; Ctrl-C again stops at once without saving.",
            file=sys.stderr,
            flush=True,
        )

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
