"""The autopilot's clock on this machine's, from TIMESYNC: when a measurement was taken, not when it arrived."""

from __future__ import annotations

from collections import deque

_KEPT_NS = 10_000_000_000
_STEP_NS = 1_000_000_000
"""A clock whose offset changes by more has been restarted: the autopilot has rebooted."""


class RemoteClock:
    """Estimates the offset of another clock from answers to requests: the quickest of the last 10 s counts.

    All times are ns; this machine's are monotonic.
    """

    def __init__(self) -> None:
        self._answers: deque[tuple[int, int, int]] = deque()
        """(received, round trip, offset)."""
        self._best: tuple[int, int] | None = None

    @property
    def known(self) -> bool:
        """Whether there was an answer yet."""
        return self._best is not None

    @property
    def round_trip_s(self) -> float:
        """Round trip of the answer that counts, s; half of it bounds the error of the offset. NaN if unknown."""
        return float("nan") if self._best is None else self._best[0] / 1e9

    @property
    def offset_s(self) -> float:
        """The other clock's time minus this machine's, s; NaN if unknown."""
        return float("nan") if self._best is None else self._best[1] / 1e9

    def answered(self, sent_ns: int, remote_ns: int, received_ns: int) -> None:
        """Take the answer to a request; one that arrived before it was sent is dropped."""
        trip = received_ns - sent_ns
        if trip < 0:
            return
        offset = remote_ns - (sent_ns + trip // 2)
        if self._best is not None and abs(offset - self._best[1]) > _STEP_NS + trip:
            self._answers.clear()
        self._answers.append((received_ns, trip, offset))
        while self._answers[0][0] < received_ns - _KEPT_NS:
            self._answers.popleft()
        _, trip, offset = min(self._answers, key=lambda answer: answer[1])
        self._best = trip, offset

    def local_ns(self, remote_ns: int, arrived_ns: int) -> int:
        """Return this machine's time for the other clock's, never later than the arrival of the message with it."""
        return arrived_ns if self._best is None else min(remote_ns - self._best[1], arrived_ns)
