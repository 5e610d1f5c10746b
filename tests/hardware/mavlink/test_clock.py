from __future__ import annotations

import numpy as np

from rlstack.hardware.mavlink.clock import RemoteClock

MS = 1_000_000


def test_the_quickest_answer_counts_and_a_slow_way_back_does_not_shift_it() -> None:
    clock, generator, offset = RemoteClock(), np.random.default_rng(2), 5_000_000 * MS
    for k in range(50):
        sent = k * 200 * MS
        there, back = 1 * MS, int((1 + 8 * generator.random()) * MS)
        clock.answered(sent, sent + there + offset, sent + there + back)
    assert abs(clock.offset_s - offset / 1e9) < 0.0005
    assert clock.round_trip_s < 0.003


def test_a_stamp_becomes_local_and_is_never_later_than_its_arrival() -> None:
    clock = RemoteClock()
    assert not clock.known and clock.local_ns(77, 5) == 5
    clock.answered(100 * MS, 1101 * MS, 102 * MS)  # one second ahead
    assert clock.local_ns(1150 * MS, 160 * MS) == 150 * MS
    assert clock.local_ns(1500 * MS, 160 * MS) == 160 * MS


def test_a_reboot_is_noticed_at_once_and_an_impossible_answer_dropped() -> None:
    clock = RemoteClock()
    clock.answered(0, 900_000 * MS, 1 * MS)
    clock.answered(10 * MS, 3 * MS, 5 * MS)
    assert clock.offset_s > 800.0
    clock.answered(20 * MS, 50 * MS, 30 * MS)  # a worse trip than before, but another clock
    assert abs(clock.offset_s - 0.025) < 1e-6
