"""Waiting for what happens on another thread."""

from __future__ import annotations

import time
from collections.abc import Callable

SOON_S = 5.0


def soon(condition: Callable[[], object], within_s: float = SOON_S) -> bool:
    """Return whether a condition holds within a time."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True
