"""Deferred Ctrl-C: finish the iteration first, so that the saved state is complete."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Turn the first SIGINT into a stop request, the event; the second raises ``KeyboardInterrupt`` at once.

    No-op outside the main thread, which alone receives signals, and where SIGINT is ignored.
    """
    stop, ignored = threading.Event(), signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
    if ignored or threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        text = "\nStopping after this iteration, then saving; Ctrl-C again stops at once without saving."
        print(text, file=sys.stderr, flush=True)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
