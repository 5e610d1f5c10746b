from __future__ import annotations

import pytest

from rlstack.hardware.stream_rate import StreamRate


def test_the_rate_is_by_the_stamps_and_one_pause_does_not_count() -> None:
    rate = StreamRate()
    stamps = [0.01 * k for k in range(6)] + [0.5 + 0.01 * k for k in range(20)]
    for stamp in stamps:
        rate.note(stamp)
    assert rate.measured(70.0) == pytest.approx(100.0)


def test_a_slow_stream_is_slow_and_too_few_states_are_no_rate() -> None:
    rate = StreamRate()
    for k in range(10):
        rate.note(0.025 * k)
    assert rate.measured(70.0, 0.0) == 0.0
    for k in range(10, 40):
        rate.note(0.025 * k)
    assert rate.measured(70.0, 0.0) == pytest.approx(40.0)


def test_stamps_that_go_back_begin_anew() -> None:
    rate = StreamRate()
    for stamp in (5.0, 5.01, 1.0):
        rate.note(stamp)
    for k in range(11):
        rate.note(1.01 + 0.01 * k)
    assert rate.measured(70.0, 0.0) == pytest.approx(100.0)
