"""Frames of the serial protocol: what is broken is dropped, and what follows is found."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.hardware.serial_protocol import Flag, Hello, Parser, State
from tests.support.peers.serial_base import framed

STATE = framed(0x82, struct.pack("<IiifffBB", 1000, 5, -5, 1.5, -1.5, 11.5, 90, 3))
HELLO = framed(0x81, struct.pack("<B16sffIffH", 1, b"mouse", 0.03, 0.2, 1440, 0.5, 2.0, 300))


def test_messages_are_what_the_firmware_said() -> None:
    hello, state = Parser().feed(HELLO + STATE)
    assert isinstance(hello, Hello) and (hello.name, hello.ticks_per_turn, hello.watchdog_ms) == ("mouse", 1440, 300)
    assert state == State(1000, 5, -5, 1.5, -1.5, 11.5, 90, Flag.MOTORS_ON | Flag.EMERGENCY_STOP)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.integers(0, len(STATE) - 1), st.integers(1, 255), st.lists(st.integers(1, 20)))
def test_a_broken_frame_is_dropped_and_the_next_ones_are_found(
    noise: bytes, place: int, change: int, cuts: list[int]
) -> None:
    broken = bytearray(STATE)
    broken[place] ^= change
    parser = Parser()
    stream = bytes(broken) + noise.replace(b"\xa5", b"") + STATE + STATE
    found = []
    while stream:
        size = cuts.pop() if cuts else len(stream)
        found += parser.feed(stream[:size])
        stream = stream[size:]
    assert found[-1:] == Parser().feed(STATE) and len(found) <= 2 and parser.bad <= 3
