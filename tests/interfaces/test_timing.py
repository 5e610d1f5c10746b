from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.timing import Arrival, Pace, Schedule, StampClock

MS = 1_000_000
NO_SYSTEM = 10**18


@settings(deadline=None)
@given(st.floats(1.0, 500.0), st.floats(1.0, 500.0))
def test_each_topic_keeps_its_rate(rate_hz: float, tick_hz: float) -> None:
    schedule = Schedule({"a": rate_hz}, tick_hz)
    ticks = 1000
    count = sum("a" in schedule.due() for _ in range(ticks))
    assert abs(count - ticks * min(rate_hz / tick_hz, 1.0)) <= 1.0


def looked_at(pace: Pace, measured_ns: list[int], every_ns: int) -> list[int]:
    """Return the stamps that go out where a timer looks at the newest measurement."""
    out, newest = [], 0
    for now in range(measured_ns[0], measured_ns[-1] + 20 * MS, every_ns):
        while newest + 1 < len(measured_ns) and measured_ns[newest + 1] <= now:
            newest += 1
        if pace.takes(measured_ns[newest]):
            out.append(measured_ns[newest])
    return out


@settings(deadline=None, max_examples=30)
@given(st.floats(60.0, 100.0), st.integers(0, 9), st.lists(st.integers(-2, 2), min_size=200, max_size=200))
def test_every_measurement_goes_out_once_and_at_once_whatever_the_phase(
    rate_hz: float, phase_ms: int, jitter_ms: list[int]
) -> None:
    stamps = [NO_SYSTEM + int(k * 1e9 / rate_hz) + MS * (phase_ms + j) for k, j in enumerate(jitter_ms)]
    assert looked_at(Pace(100.0), stamps, 2 * MS) == stamps


@settings(deadline=None, max_examples=30)
@given(st.floats(110.0, 1000.0))
def test_a_faster_robot_is_observed_at_the_rate_without_gaps(rate_hz: float) -> None:
    stamps = [NO_SYSTEM + int(k * 1e9 / rate_hz) for k in range(int(2 * rate_hz))]
    out = looked_at(Pace(100.0), stamps, 2 * MS)
    assert 150 < len(out) <= 205
    assert max(b - a for a, b in pairwise(out)) < 20 * MS


def test_a_robot_that_has_stopped_measuring_says_nothing_and_a_clock_set_back_ends_that() -> None:
    pace = Pace(100.0)
    assert [pace.takes(NO_SYSTEM) for _ in range(4)] == [True, False, False, False]
    assert pace.takes(NO_SYSTEM - NANOSECONDS) and not pace.takes(NO_SYSTEM - NANOSECONDS)
    assert pace.takes(NO_SYSTEM + NANOSECONDS)


def test_topics_are_due_together_from_the_first_tick() -> None:
    schedule = Schedule({"imu": 500.0, "odom": 100.0}, 500.0)
    assert [schedule.due() for _ in range(6)] == [["imu", "odom"], ["imu"], ["imu"], ["imu"], ["imu"], ["imu", "odom"]]


def test_simulated_time_goes_on_after_the_last_stamp() -> None:
    clock = StampClock()
    assert clock.now_ns(0, NO_SYSTEM) is None
    clock.observe(5 * NANOSECONDS, 1000 * MS, NO_SYSTEM)
    assert clock.now_ns(1000 * MS, NO_SYSTEM) == 5 * NANOSECONDS
    assert clock.now_ns(1030 * MS, NO_SYSTEM) == 5 * NANOSECONDS + 30 * MS


@settings(deadline=None)
@given(st.floats(0.05, 20.0))
def test_a_simulation_at_any_rate_ages_at_its_rate(factor: float) -> None:
    clock = StampClock()
    for i in range(200):
        clock.observe(i * 10 * MS, round(i * 10 * MS / factor), NO_SYSTEM)
    last, arrived = 199 * 10 * MS, round(199 * 10 * MS / factor)
    later = clock.now_ns(arrived + 50 * MS, NO_SYSTEM)
    if arrived >= NANOSECONDS:  # long enough to have measured the rate
        assert abs((later - last) - factor * 50 * MS) < 0.1 * factor * 50 * MS


def test_a_slow_simulation_does_not_look_stale_at_its_start() -> None:
    clock = StampClock()
    clock.observe(0, 0, NO_SYSTEM)
    clock.observe(10 * MS, 100 * MS, NO_SYSTEM)  # a tenth of real time
    assert clock.now_ns(200 * MS, NO_SYSTEM) == 20 * MS


def test_a_reset_does_not_spoil_the_rate() -> None:
    clock = StampClock()
    for i in range(200):
        jump = 100 * NANOSECONDS if i >= 100 else 0
        clock.observe(i * 10 * MS + jump, i * 10 * MS, NO_SYSTEM)
    now = clock.now_ns(200 * 10 * MS, NO_SYSTEM)
    assert abs(now - (200 * 10 * MS + 100 * NANOSECONDS)) < MS


def arrivals(clock: StampClock, stamps_ms: list[int], every_ms: int = 10, start_ms: int = 0) -> list[Arrival]:
    """Return how stamps follow that arrive one after the other."""
    return [clock.observe(stamp * MS, (start_ms + k * every_ms) * MS, NO_SYSTEM) for k, stamp in enumerate(stamps_ms)]


NEXT, DROPPED, RESTARTED = Arrival.NEXT, Arrival.DROPPED, Arrival.RESTARTED


def test_a_stamp_one_nanosecond_in_the_past_is_dropped() -> None:
    clock = StampClock()
    assert clock.observe(10 * MS, 0, NO_SYSTEM) is NEXT
    assert clock.observe(10 * MS - 1, MS, NO_SYSTEM) is DROPPED
    assert clock.observe(20 * MS, 10 * MS, NO_SYSTEM) is NEXT
    assert clock.now_ns(10 * MS, NO_SYSTEM) == 20 * MS


def test_one_message_far_ahead_is_dropped_and_those_after_it_are_not() -> None:
    assert arrivals(StampClock(), [0, 10, 10_000, 30, 40]) == [NEXT, NEXT, DROPPED, NEXT, NEXT]


@pytest.mark.parametrize("jump_ms", [-5_000, -300, 1_000, 60_000])
def test_a_jump_that_lasts_is_a_restart_within_a_few_messages(jump_ms: int) -> None:
    clock = StampClock()
    assert arrivals(clock, list(range(1_000, 1_100, 10))) == [NEXT] * 10
    assert not clock.doubtful
    after = arrivals(clock, [1_100 + jump_ms], start_ms=100)
    assert clock.doubtful  # not a moment to arm
    after += arrivals(clock, [1_100 + jump_ms + 10 * k for k in range(1, 10)], start_ms=110)
    assert not clock.doubtful
    assert after == [DROPPED] * 4 + [RESTARTED] + [NEXT] * 5
    assert clock.now_ns(190 * MS, NO_SYSTEM) == (1_190 + jump_ms) * MS


def test_two_publishers_with_clocks_apart_are_no_restart_and_one_of_them_counts() -> None:
    mixed = [stamp for k in range(50) for stamp in (1_000 + 10 * k, 500 + 10 * k)]
    assert arrivals(StampClock(), mixed, every_ms=5) == [NEXT, DROPPED] * 50


def test_a_frozen_stamp_of_another_clock_is_no_restart() -> None:
    assert arrivals(StampClock(), [1_000, *[500] * 30, 1_310]) == [NEXT, *[DROPPED] * 30, NEXT]


def test_a_gap_in_which_time_passed_is_no_jump() -> None:
    clock = StampClock()
    assert clock.observe(0, 0, NO_SYSTEM) is NEXT
    assert clock.observe(3 * NANOSECONDS, 3 * NANOSECONDS, NO_SYSTEM) is NEXT  # the link was away for 3 s
    live, system = StampClock(), 1_700_000_000 * NANOSECONDS
    assert live.observe(system, 0, system) is NEXT
    assert live.observe(system + 9 * NANOSECONDS, 9 * NANOSECONDS, system + 9 * NANOSECONDS) is NEXT


def test_in_lock_step_every_jump_is_a_reset_at_once() -> None:
    clock, second = StampClock(lock_step=True), NANOSECONDS
    given = (5 * second, 5 * second + 400 * MS, 7 * second, 7 * second - 1, 7 * second - 1)
    assert [clock.observe(at, 0, NO_SYSTEM) for at in given] == [NEXT, NEXT, RESTARTED, RESTARTED, NEXT]


def test_after_a_jump_stamps_near_the_systems_clock_are_the_present_on_arrival() -> None:
    clock, system = StampClock(), 1_700_000_000 * NANOSECONDS
    for k in range(20):  # the robot's clock steps by 3 s in flight
        stamp = system + k * 10 * MS + (3 * NANOSECONDS if k >= 10 else 0)
        clock.observe(stamp, k * 10 * MS, system + k * 10 * MS)
    assert clock.now_ns(190 * MS, system + 190 * MS) == stamp


def test_late_observations_are_late_by_the_clock_topic() -> None:
    clock = StampClock()
    for k in range(100):
        clock.observe_clock(k * 10 * MS, k * 10 * MS)
        late = 15 if k >= 50 else 0
        clock.observe((k - late) * 10 * MS, k * 10 * MS, NO_SYSTEM)
    assert clock.now_ns(990 * MS, NO_SYSTEM) == 990 * MS


def test_a_clock_topic_that_jumps_before_the_stamps_do_does_not_age_them() -> None:
    clock = StampClock()
    for k in range(20):
        jump = 1_000 if k >= 10 else 0
        clock.observe_clock((k * 10 + jump) * MS, k * 10 * MS)
        arrival = clock.observe((k * 10 + jump) * MS, k * 10 * MS + MS, NO_SYSTEM)
        now = clock.now_ns(k * 10 * MS + MS, NO_SYSTEM)
        if arrival is DROPPED:
            assert now <= (k * 10 + 10) * MS
    assert now == (190 + 1_000 + 1) * MS


def test_stamps_of_the_system_clock_count_transport_as_age() -> None:
    clock = StampClock()
    system = 1_700_000_000 * NANOSECONDS
    clock.observe(system - 80 * MS, 0, system)  # 80 ms under way
    assert clock.now_ns(5 * MS, system + 5 * MS) == system + 5 * MS


@pytest.mark.parametrize("jumps", [False, True])
def test_time_goes_on_while_a_frozen_robot_repeats_its_last_stamp(jumps: bool) -> None:
    """Otherwise its observation would never be old, and the policy would fly on what it saw last."""
    clock, jump = StampClock(), 20 * NANOSECONDS if jumps else 0
    for k in range(200):
        clock.observe(NO_SYSTEM + 10 * MS * k + (jump if k > 50 else 0), 10 * MS * k, NO_SYSTEM + 10 * MS * k)
    last, began = NO_SYSTEM + 1990 * MS + jump, 1990 * MS
    for k in range(1, 101):
        assert clock.observe(last, began + 10 * MS * k, NO_SYSTEM + began + 10 * MS * k) is Arrival.NEXT
        now = clock.now_ns(began + 10 * MS * k, NO_SYSTEM + began + 10 * MS * k)
        assert now is not None and abs(now - last - 10 * MS * k) < MS
    after = began + 1010 * MS
    assert clock.observe(last + 1010 * MS, after, NO_SYSTEM + after) is Arrival.NEXT, "it goes on: no jump"


def test_a_paused_simulators_time_stands_still_and_goes_on_from_there() -> None:
    clock, period = StampClock(), 10 * MS
    for k in range(100):
        clock.observe(k * period, NO_SYSTEM + k * period, NO_SYSTEM)
        clock.observe_clock(k * period, NO_SYSTEM + k * period)
    last, now = 99 * period, NO_SYSTEM + 99 * period
    clock.set_rate(0.0, now + 5 * MS)
    assert clock.stands and clock.now_ns(now + 3600 * NANOSECONDS, NO_SYSTEM) == last
    now += 3600 * NANOSECONDS
    clock.set_rate(1.0, now)
    assert not clock.stands and clock.now_ns(now + 4 * MS, NO_SYSTEM) == last + 4 * MS
    assert clock.observe(last + NANOSECONDS, now + 4 * MS, NO_SYSTEM) is Arrival.DROPPED  # a reset meanwhile
    assert clock.observe(last + period, now + period, NO_SYSTEM) is Arrival.NEXT


def test_a_slower_simulation_is_believed_at_once_and_a_faster_one_by_its_stamps() -> None:
    clock, period = StampClock(), 10 * MS
    for k in range(100):
        clock.observe(k * period, NO_SYSTEM + k * period, NO_SYSTEM)
    last, now = 99 * period, NO_SYSTEM + 99 * period
    clock.set_rate(0.1, now)
    assert clock.now_ns(now + 50 * MS, NO_SYSTEM) == last + 5 * MS
    clock.set_rate(10.0, now)
    assert clock.now_ns(now + 50 * MS, NO_SYSTEM) == last + 5 * MS
    for k in range(1, 400):
        clock.observe(last + k * period, now + k * period // 5, NO_SYSTEM)
    assert clock.now_ns(now + 399 * period // 5 + MS, NO_SYSTEM) == pytest.approx(last + 399 * period + 5 * MS, abs=MS)


def test_a_real_robots_clock_does_not_stand_still() -> None:
    clock = StampClock()
    clock.observe(NO_SYSTEM, 0, NO_SYSTEM)
    clock.set_rate(0.0, 0)
    assert not clock.stands and clock.now_ns(0, NO_SYSTEM + MS) == NO_SYSTEM + MS
