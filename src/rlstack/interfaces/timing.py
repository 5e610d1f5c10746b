"""Timing on the topics: which topics are due, and the present time on the stamps' clock."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from rlstack.interfaces.messages import NANOSECONDS

JUMP_NS = NANOSECONDS // 2
"""Stamps that go ahead by more than this, beyond the time that has passed, have jumped."""

LASTING_MESSAGES, LASTING_NS = 3, 40_000_000
"""How many stamps in a row, and over which time, make a jump that lasts; less than a guard's shortest timeout."""

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


class Pace:
    """Which measurements go out of a robot that measures in its own time: each new one at once, up to a rate.

    A timer that samples them would miss some and repeat others where the two drift against each other.

    Args:
        rate_hz: Rate. A measurement may come early by 0.45 of its period: stamps vary.
    """

    def __init__(self, rate_hz: float) -> None:
        self._period_ns = round(NANOSECONDS / rate_hz)
        self._early_ns = self._period_ns * 9 // 20
        self._next_ns: int | None = None

    def takes(self, stamp_ns: int) -> bool:
        """Return whether the measurement of this time goes out: it is new, and not too soon after the last."""
        following = self._next_ns
        if following is None or stamp_ns < following - 3 * self._period_ns:  # a clock that was set back
            following = stamp_ns
        elif stamp_ns < following - self._early_ns:
            return False
        self._next_ns = max(following, stamp_ns - self._early_ns) + self._period_ns
        return True


class Arrival(Enum):
    """How a stamp follows those before it."""

    NEXT = "next"
    """It continues them, or repeats the last one."""
    DROPPED = "dropped"
    """It is out of order, or far ahead: from a message that overtook others, from another publisher, or the first of a
    clock that has jumped. The message must not be used."""
    RESTARTED = "restarted"
    """The clock has jumped for good: this stamp begins another sequence."""


class StampSequence:
    """Tells stamps out of order from a clock that has jumped.

    A stamp that goes back, or ahead by more than :data:`JUMP_NS` beyond the time that has passed, is dropped, unless
    :data:`LASTING_MESSAGES` in a row, over at least :data:`LASTING_NS`, continue each other: then the clock has jumped.
    One message never is enough, so that neither a reordered message nor a second publisher looks like a reset.

    Args:
        lock_step: Simulated time waits for each answer: no message is under way beside another one, so that every jump
            is a reset, at once.
    """

    def __init__(self, lock_step: bool = False) -> None:
        self._lock_step = lock_step
        self._last_ns: int | None = None
        self._arrived_ns = 0
        self._candidate_ns, self._candidates, self._candidates_since_ns = 0, 0, 0

    @property
    def doubtful(self) -> bool:
        """Whether the last stamp was dropped: the clock may have jumped."""
        return self._candidates > 0

    def forget(self) -> None:
        """Accept any next stamp."""
        self._last_ns, self._candidates = None, 0

    def go_on(self, monotonic_ns: int) -> None:
        """Count the time until now, on a monotonic clock, as if it had not passed."""
        self._arrived_ns = monotonic_ns

    def observe(self, stamp_ns: int, arrived_ns: int, rate: float = 1.0) -> Arrival:
        """Add a stamp.

        Args:
            stamp_ns: The stamp.
            arrived_ns: When it arrived, on a monotonic clock.
            rate: Seconds of the stamps' clock per second.
        """
        if self._last_ns is None:
            return self._accept(stamp_ns, arrived_ns, Arrival.NEXT)
        ahead_ns = stamp_ns - self._last_ns
        passed_ns = 0 if self._lock_step else int((arrived_ns - self._arrived_ns) * rate)
        if ahead_ns == 0 and not self._lock_step:  # a frozen robot repeats it: its next stamp is no jump
            self._candidates = 0
            return Arrival.NEXT
        if 0 <= ahead_ns <= JUMP_NS + passed_ns:
            return self._accept(stamp_ns, arrived_ns, Arrival.NEXT)
        if self._lock_step:
            return self._accept(stamp_ns, arrived_ns, Arrival.RESTARTED)
        follows = stamp_ns - self._candidate_ns
        if self._candidates and follows == 0:
            return Arrival.DROPPED
        if self._candidates and 0 < follows <= JUMP_NS:
            self._candidates += 1
        else:
            self._candidates, self._candidates_since_ns = 1, arrived_ns
        self._candidate_ns = stamp_ns
        if self._candidates >= LASTING_MESSAGES and arrived_ns - self._candidates_since_ns >= LASTING_NS:
            return self._accept(stamp_ns, arrived_ns, Arrival.RESTARTED)
        return Arrival.DROPPED

    def _accept(self, stamp_ns: int, arrived_ns: int, arrival: Arrival) -> Arrival:
        self._last_ns, self._arrived_ns, self._candidates = stamp_ns, arrived_ns, 0
        return arrival


class StampClock:
    """The clock of the observations' stamps.

    Stamps near the system's clock (a real robot) are on that clock, so transport delays count; after they have jumped
    they are not. Other stamps (a simulator that owns time) are on ``/clock``, where :meth:`observe_clock` tells of it.
    Without it they are the present on arrival, and time continues from there at the rate at which stamps have been
    advancing, so ages are right in simulations slower or faster than real time.

    Args:
        lock_step: See :class:`StampSequence`.
    """

    def __init__(self, lock_step: bool = False) -> None:
        self._sequence, self._lock_step = StampSequence(lock_step), lock_step
        self._stamp_ns: int | None = None
        self._arrived_ns = 0
        self._anchor_ns = (0, 0)
        self._rate = self._moving_rate = self._told_rate = 1.0
        self._measured = False
        self._live, self._jumped = False, False
        self._clock_sequence = StampSequence()
        self._clock: tuple[int, int] | None = None
        self._clock_waits = False  # it has jumped, and the stamps have not yet

    @property
    def doubtful(self) -> bool:
        """Whether the last stamp was dropped: the clock may have jumped."""
        return self._sequence.doubtful

    def observe(self, stamp_ns: int, monotonic_ns: int, system_ns: int) -> Arrival:
        """Add a stamp that has just arrived; return how it follows those before."""
        last = self._stamp_ns
        live = abs(system_ns - stamp_ns) < _LIVE_WITHIN_NS
        if self._lock_step and live and self._live and last is not None and stamp_ns > last:
            self._sequence.forget()  # real time passed between two messages
        arrival = self._sequence.observe(stamp_ns, monotonic_ns, self._rate)
        if arrival is Arrival.DROPPED or (stamp_ns == last and not self._lock_step):
            return arrival  # time goes on while a frozen robot repeats its last stamp
        self._stamp_ns, self._arrived_ns = stamp_ns, monotonic_ns
        if arrival is Arrival.RESTARTED:
            self._jumped, self._clock, self._clock_waits = True, None, False
            self._clock_sequence.forget()
        self._live = live and (not self._jumped or self._lock_step)
        stamps, arrivals = stamp_ns - self._anchor_ns[0], monotonic_ns - self._anchor_ns[1]
        if last is None or stamp_ns < last or stamp_ns - last > _RATE_WINDOW_NS:
            self._anchor_ns = (stamp_ns, monotonic_ns)
        elif arrivals >= _RATE_WINDOW_NS:
            self._rate, self._measured = stamps / arrivals, True
            self._anchor_ns = (stamp_ns, monotonic_ns)
        elif not self._measured and arrivals > 0:
            # rough, but a slow simulation must not look stale at its start
            self._rate = min(stamps / arrivals, self._told_rate)
        return arrival

    @property
    def stands(self) -> bool:
        """Whether time stands still: its simulator is paused."""
        return self._rate == 0.0 and not self._live

    def set_rate(self, rate: float, monotonic_ns: int) -> None:
        """Take a simulator's word for its pace from now on, s per second; 0: it is paused.

        One that becomes faster is believed once its stamps are, as it may not reach that.
        """
        self._told_rate = rate
        if self._rate > 0.0:
            self._moving_rate = self._rate
        self._rate = min(rate, self._moving_rate) if rate > 0.0 else 0.0
        self._arrived_ns = monotonic_ns
        self._sequence.go_on(monotonic_ns)
        self._clock_sequence.go_on(monotonic_ns)
        if self._stamp_ns is not None:
            self._anchor_ns = (self._stamp_ns, monotonic_ns)
        if self._clock is not None:
            self._clock = (self._clock[0], monotonic_ns)

    def observe_clock(self, time_ns: int, monotonic_ns: int) -> None:
        """Add a message of ``/clock``; one that jumps is used only once the stamps have jumped, too."""
        arrival = self._clock_sequence.observe(time_ns, monotonic_ns, self._rate)
        if arrival is Arrival.RESTARTED:
            self._clock_waits = True
        if arrival is Arrival.DROPPED or self._clock_waits:
            self._clock = None
        else:
            self._clock = (time_ns, monotonic_ns)

    def now_ns(self, monotonic_ns: int, system_ns: int) -> int | None:
        """Return the present time on the stamps' clock; None before the first stamp."""
        if self._stamp_ns is None:
            return None
        if self._live:
            return system_ns
        present = self._stamp_ns + int((monotonic_ns - self._arrived_ns) * self._rate)
        if self._clock is None:
            return present
        time_ns, at_ns = self._clock
        by_clock = time_ns + int((monotonic_ns - at_ns) * self._rate)
        # further apart, it is the clock of another simulation
        return max(by_clock, self._stamp_ns) if abs(by_clock - present) <= JUMP_NS else present
