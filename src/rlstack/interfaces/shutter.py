"""When a camera or lidar sees, and when what it saw is there: the same on a robot node and in process."""

from __future__ import annotations

import math
from collections import deque
from typing import Generic, TypeVar

from rlstack.interfaces.messages import NANOSECONDS

T = TypeVar("T")

_SLACK_TURNS = 1e-6
_SLACK_NS = 1000
"""For stamps that were rounded."""


def turn_at(since_ns: int, rate_hz: float) -> int:
    """Return how many times something that sees ``rate_hz`` times a second has seen again, so long after the first."""
    return math.floor(since_ns / NANOSECONDS * rate_hz + _SLACK_TURNS)


def turn_there(since_ns: int, rate_hz: float, latency_ns: int, step_ns: int) -> int:
    """Return the newest turn that is there, so long after the first, where one looks every ``step_ns``.

    Args:
        since_ns: From the first one.
        rate_hz: At which it sees.
        latency_ns: How much later what was seen is there; the first is at once.
        step_ns: Between two looks; what is seen, or there, between them is so at the later one.
    """
    late_ns = -((_SLACK_NS - latency_ns) // step_ns) * step_ns if latency_ns > _SLACK_NS else 0
    return turn_at(max(since_ns - late_ns, 0), rate_hz)


class Shutter(Generic[T]):
    """Says when to look, and gives what was seen once its latency is over.

    Turns are counted from the last :meth:`restart`, so that episodes are equal whenever they begin. What is seen first
    is there at once: a camera has been running before, and nothing has moved yet.

    Args:
        rate_hz: At which it sees.
        latency_ns: How much later what was seen is there.
    """

    def __init__(self, rate_hz: float, latency_ns: int = 0) -> None:
        self.rate_hz, self.latency_ns = rate_hz, latency_ns
        self.restart(0)

    def restart(self, now_ns: int) -> None:
        """Forget all, and see at once: the robot was put elsewhere.

        Args:
            now_ns: The robot's time, as in the other methods.
        """
        self._begun_ns, self._turn, self._seen = now_ns, -1, False
        self._coming: deque[tuple[int, int, T]] = deque()
        self.newest: tuple[int, T] | None = None
        """What is there, and when it was seen, ns; None: nothing yet."""

    def is_due(self, now_ns: int) -> bool:
        """Return whether it sees now."""
        return turn_at(now_ns - self._begun_ns, self.rate_hz) > self._turn

    def saw(self, now_ns: int, seen_ns: int, what: T) -> None:
        """Take what was seen.

        Args:
            now_ns: When it was due.
            seen_ns: Its own stamp.
            what: It.
        """
        latency_ns = self.latency_ns if self._seen else 0
        self._turn, self._seen = turn_at(now_ns - self._begun_ns, self.rate_hz), True
        self._coming.append((seen_ns + latency_ns, seen_ns, what))

    def arrived(self, now_ns: int) -> list[tuple[int, T]]:
        """Return what has come since it was last asked, and when it was seen, ns; the oldest first."""
        found = []
        while self._coming and self._coming[0][0] <= now_ns + _SLACK_NS:
            found.append(self._coming.popleft()[1:])
            self.newest = found[-1]
        return found
