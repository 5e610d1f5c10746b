"""The rate at which a robot sends its state, by the robot's own stamps."""

from __future__ import annotations

import time
from collections import deque

_STATES = 11
"""Over how many states it is measured."""


class StreamRate:
    """Measures a rate; :meth:`note` may be called by another thread than :meth:`measured`."""

    def __init__(self) -> None:
        self._stamps: deque[float] = deque(maxlen=_STATES)
        self._best_hz = 0.0

    def note(self, stamp_s: float) -> None:
        """Note a state, whose stamp is the robot's time, s."""
        stamps = self._stamps
        if stamps and stamp_s <= stamps[-1]:
            stamps.clear()
        stamps.append(stamp_s)
        if len(stamps) == _STATES:
            self._best_hz = max(self._best_hz, (_STATES - 1) / (stamps[-1] - stamps[0]))

    def measured(self, least_hz: float, timeout_s: float = 1.5) -> float:
        """Return the best rate over some states as soon as it is ``least_hz``, or after ``timeout_s``.

        The best, because a machine that is busy starting its nodes may stall for a moment; a link that is too slow has
        no such moment.
        """
        end = time.monotonic() + timeout_s
        while self._best_hz < least_hz and time.monotonic() < end:
            time.sleep(0.002)
        return self._best_hz
