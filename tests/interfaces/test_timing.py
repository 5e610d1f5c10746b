from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.timing import Schedule, StampClock

MS = 1_000_000
NO_SYSTEM = 10**18


@settings(deadline=None)
@given(st.floats(1.0, 500.0), st.floats(1.0, 500.0))
def test_each_topic_keeps_its_rate(rate_hz: float, tick_hz: float) -> None:
    schedule = Schedule({"a": rate_hz}, tick_hz)
    ticks = 1000
    count = sum("a" in schedule.due() for _ in range(ticks))
    assert abs(count - ticks * min(rate_hz / tick_hz, 1.0)) <= 1.0


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


def test_stamps_that_jump_are_of_another_flight_unless_the_systems_clock_went_on_meanwhile() -> None:
    simulated, second = StampClock(), NANOSECONDS
    given = (5 * second, 5 * second + 400 * MS, 7 * second, 7 * second - 1, 7 * second - 1)
    assert [simulated.observe(at, 0, NO_SYSTEM) for at in given] == [False, False, True, True, False]
    real, now = StampClock(), 1_700_000_000 * second
    assert not real.observe(5 * second, 0, now)
    assert real.observe(now, 0, now), "from a simulator's clock to the system's"
    assert not real.observe(now + 2 * second, 2 * second, now + 2 * second), "nobody was heard of for a while"
    assert real.observe(now + second, 3 * second, now + 3 * second)
    assert real.observe(now + 60 * second, 4 * second, now + 4 * second), "a minute ahead of everybody"


def test_stamps_of_the_system_clock_count_transport_as_age() -> None:
    clock = StampClock()
    system = 1_700_000_000 * NANOSECONDS
    clock.observe(system - 80 * MS, 0, system)  # 80 ms under way
    assert clock.now_ns(5 * MS, system + 5 * MS) == system + 5 * MS
