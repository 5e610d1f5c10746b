"""Sampling rate and latency of cameras and lidars, on a robot node and in process."""

from __future__ import annotations

import math
from collections import deque
from typing import Generic, TypeVar

from rlstack.interfaces.messages import NANOSECONDS

T = TypeVar("T")

_SLACK_SAMPLES = 1e-6
_SLACK_NS = 1000
"""Tolerance for rounded stamps."""


def samples_until(since_ns: int, rate_hz: float) -> int:
    """Return how many samples a sensor has taken after its first one, ``since_ns`` after that."""
    return math.floor(since_ns / NANOSECONDS * rate_hz + _SLACK_SAMPLES)


def samples_arrived(since_ns: int, rate_hz: float, latency_ns: int, step_ns: int) -> int:
    """Return the number of the newest sample that has arrived ``since_ns`` after the first, polled every ``step_ns``.

    Args:
        since_ns: Time since the first one.
        rate_hz: Sampling rate.
        latency_ns: Time from a sample to its arrival; the first arrives at once.
        step_ns: Polling period; samples and arrivals in between count at the later poll.
    """
    late_ns = -((_SLACK_NS - latency_ns) // step_ns) * step_ns if latency_ns > _SLACK_NS else 0
    return samples_until(max(since_ns - late_ns, 0), rate_hz)


class SensorQueue(Generic[T]):
    """Schedules a sensor's samples, and releases each after its latency.

    Samples are counted from the last :meth:`restart`, so that episodes are equal whenever they begin. The first arrives
    at once, as from a camera that was already running while nothing moved.

    Args:
        rate_hz: Sampling rate.
        latency_ns: Time from a sample to its arrival.
    """

    def __init__(self, rate_hz: float, latency_ns: int = 0) -> None:
        self.rate_hz, self.latency_ns = rate_hz, latency_ns
        self.restart(0)

    def restart(self, now_ns: int) -> None:
        """Drop all samples and take one at once, after the robot was moved.

        Args:
            now_ns: The robot's time, as in the other methods.
        """
        self._began_ns, self._count, self._sampled = now_ns, -1, False
        self._queue: deque[tuple[int, int, T]] = deque()
        self.newest: tuple[int, T] | None = None
        """The last sample that arrived, with its stamp, ns; None before the first."""

    def is_due(self, now_ns: int) -> bool:
        """Return whether the sensor takes a sample now."""
        return samples_until(now_ns - self._began_ns, self.rate_hz) > self._count

    def push(self, now_ns: int, stamp_ns: int, sample: T) -> None:
        """Queue a sample.

        Args:
            now_ns: When it was due.
            stamp_ns: Its own stamp.
            sample: The measurement.
        """
        latency_ns = self.latency_ns if self._sampled else 0
        self._count, self._sampled = samples_until(now_ns - self._began_ns, self.rate_hz), True
        self._queue.append((stamp_ns + latency_ns, stamp_ns, sample))

    def pop_arrived(self, now_ns: int) -> list[tuple[int, T]]:
        """Return the samples that have arrived since the last call, each with its stamp, ns; the oldest first."""
        found = []
        while self._queue and self._queue[0][0] <= now_ns + _SLACK_NS:
            found.append(self._queue.popleft()[1:])
            self.newest = found[-1]
        return found
