"""The Crazyflie's clock on this machine's: its stamps are milliseconds in 24 bits, and it has no question for the time.

The packet that took the shortest way shows the offset; half of the shortest round trip of an echo is its way.
"""

from __future__ import annotations

from collections import deque

WRAP_MS = 1 << 24
_KEPT_S = 10.0


class LogClock:
    """Unwraps stamps, and maps them to this machine's monotonic seconds."""

    def __init__(self) -> None:
        self._last_ms: int | None = None
        self._turns_ms = 0
        self._last_arrival_s = 0.0
        self._ways: deque[tuple[float, float]] = deque()
        """(arrived, arrival minus stamp), increasing in the second: the first is the smallest of the last 10 s."""
        self._trips: deque[float] = deque(maxlen=50)

    @property
    def round_trip_s(self) -> float:
        """Shortest round trip of the last echoes, s; NaN before the first."""
        return min(self._trips, default=float("nan"))

    def pinged(self, trip_s: float) -> None:
        """Take the round trip of an echo."""
        if trip_s >= 0.0:
            self._trips.append(trip_s)

    def unwrapped(self, stamp_ms: int, arrived_s: float) -> float:
        """Return the Crazyflie's time of a stamp, s, which does not wrap; it starts anew if the Crazyflie does."""
        if self._last_ms is not None:
            ahead = (stamp_ms - self._last_ms + WRAP_MS // 2) % WRAP_MS - WRAP_MS // 2
            passed = 1e3 * (arrived_s - self._last_arrival_s)
            if abs(ahead - passed) > 2000.0:  # started again
                self._ways.clear()
                self._turns_ms = 0
            elif stamp_ms < self._last_ms and ahead > 0:
                self._turns_ms += WRAP_MS
            elif stamp_ms > self._last_ms and ahead < 0:  # an older packet from before the wrap
                return (self._turns_ms - WRAP_MS + stamp_ms) / 1e3
        self._last_ms, self._last_arrival_s = stamp_ms, arrived_s
        return (self._turns_ms + stamp_ms) / 1e3

    def local_s(self, stamp_s: float, arrived_s: float) -> float:
        """Return this machine's time of a stamp, monotonic s, never later than its arrival."""
        way = arrived_s - stamp_s
        while self._ways and self._ways[-1][1] >= way:
            self._ways.pop()
        self._ways.append((arrived_s, way))
        while self._ways[0][0] < arrived_s - _KEPT_S:
            self._ways.popleft()
        trip = self.round_trip_s
        half = 0.5 * trip if trip == trip else 0.0
        return min(stamp_s + self._ways[0][1] - half, arrived_s)
