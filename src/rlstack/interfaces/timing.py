"""Timing on the topics: which topics are due, and the present time on the stamps' clock."""

from __future__ import annotations

from collections.abc import Mapping

from rlstack.interfaces.messages import NANOSECONDS

JUMP_NS = NANOSECONDS // 2
"""Stamps that go back, or ahead by more than this on a clock other than the system's, belong to another run."""

_LIVE_WITHIN_NS = 10 * NANOSECONDS
_RATE_WINDOW_NS = NANOSECONDS // 2


class Schedule:
    """Which topics are due at each tick of a timer.

    Args:
        rates_hz: Rate by topic.
        tick_hz: Rate of calls of :meth:`due`; a faster topic is due at every tick.
    """

    def __init__(self, rates_hz: Mapping[str, float], tick_hz: float) -> None:
        self._shares = {topic: min(rate / tick_hz, 1.0) for topic, rate in rates_hz.items()}
        self._tick = 0

    def due(self) -> list[str]:
        """Return the topics that are due now, and advance to the next tick; all are due at the first."""
        tick = self._tick
        self._tick += 1
        # The margin keeps rounding from moving a rate that divides the tick's to the next tick.
        return [t for t, s in self._shares.items() if int(tick * s + 1e-9) > int((tick - 1) * s + 1e-9) or tick == 0]


class StampClock:
    """The clock of the observations' stamps, without a subscription to ``/clock``.

    Stamps near the system's clock (a real robot) are on that clock, so transport delays count. Other stamps (a
    simulator that owns time) are the present on arrival, and time continues from there at the rate at which stamps have
    been advancing, so ages are right in simulations slower or faster than real time.
    """

    def __init__(self) -> None:
        self._stamp_ns: int | None = None
        self._arrived_ns = 0
        self._anchor_ns = (0, 0)
        self._rate = 1.0
        self._measured = False
        self._live = False

    def observe(self, stamp_ns: int, monotonic_ns: int, system_ns: int) -> bool:
        """Add a stamp that has just arrived; return whether it belongs to another run than the one before.

        It does if it is before that, or more than :data:`JUMP_NS` after it. If both are near the system's clock, the
        latter only means a gap between messages.
        """
        last, self._stamp_ns, self._arrived_ns = self._stamp_ns, stamp_ns, monotonic_ns
        was_live, self._live = self._live, abs(system_ns - stamp_ns) < _LIVE_WITHIN_NS
        ahead_ns = 0 if last is None else stamp_ns - last
        another = ahead_ns < 0 or (ahead_ns > JUMP_NS and not (was_live and self._live))
        stamps, arrivals = stamp_ns - self._anchor_ns[0], monotonic_ns - self._anchor_ns[1]
        if last is None or stamp_ns < last or stamp_ns - last > _RATE_WINDOW_NS:
            self._anchor_ns = (stamp_ns, monotonic_ns)
        elif arrivals >= _RATE_WINDOW_NS:
            self._rate, self._measured = stamps / arrivals, True
            self._anchor_ns = (stamp_ns, monotonic_ns)
        elif not self._measured and arrivals > 0:
            self._rate = min(stamps / arrivals, 1.0)  # rough, but a slow simulation must not look stale at its start
        return another

    def now_ns(self, monotonic_ns: int, system_ns: int) -> int | None:
        """Return the present time on the stamps' clock; None before the first stamp."""
        if self._stamp_ns is None:
            return None
        if self._live:
            return system_ns
        return self._stamp_ns + int((monotonic_ns - self._arrived_ns) * self._rate)
