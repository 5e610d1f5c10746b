"""Why a flight controller does not arm, in words."""

from __future__ import annotations

from rlstack.hardware.betaflight.arming import reasons


def test_each_flag_has_its_words() -> None:
    assert reasons(0) == ""
    assert reasons(1 << 2) == "it hears no receiver (RXLOSS)"
    assert reasons(1 << 7 | 1 << 8) == "the throttle is not low; it stands tilted by more than small_angle"


def test_the_flag_that_follows_from_the_others_is_left_out_and_unknown_ones_are_not() -> None:
    assert reasons(1 << 28) == ""
    assert reasons(1 << 30) == "unknown flags 0x40000000"
