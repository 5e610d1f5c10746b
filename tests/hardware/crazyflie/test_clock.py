from __future__ import annotations

import numpy as np

from rlstack.hardware.crazyflie.clock import WRAP_MS, LogClock


def test_stamps_do_not_wrap_and_an_older_packet_stays_older() -> None:
    clock = LogClock()
    before = clock.unwrapped(WRAP_MS - 5, 100.0)
    after = clock.unwrapped(5, 100.01)
    assert np.isclose(after - before, 0.010)
    assert np.isclose(clock.unwrapped(WRAP_MS - 1, 100.011) - before, 0.004)  # overtaken on the way
    assert np.isclose(clock.unwrapped(15, 100.02) - after, 0.010)


def test_a_restart_begins_anew() -> None:
    clock = LogClock()
    clock.local_s(clock.unwrapped(5_000_000, 50.0), 50.0)
    stamp = clock.unwrapped(10, 60.0)
    assert stamp == 0.010
    assert clock.local_s(stamp, 60.0) == 60.0


def test_the_shortest_way_counts_and_half_of_the_round_trip_is_its_way() -> None:
    clock, generator = LogClock(), np.random.default_rng(1)
    assert np.isnan(clock.round_trip_s)
    for trip in (0.009, 0.004, 0.02):
        clock.pinged(trip)
    errors = []
    for k in range(300):
        taken = 10.0 + 0.01 * k
        arrived = taken + 0.002 + 0.02 * generator.random() ** 4
        stamp = clock.unwrapped(round(1e3 * taken) % WRAP_MS, arrived)
        errors.append(clock.local_s(stamp, arrived) - taken)
    assert np.abs(errors[50:]).max() < 0.002
    assert clock.round_trip_s == 0.004
