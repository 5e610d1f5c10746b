"""MSP's frames: what is found in bytes, and what is not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlstack.hardware.betaflight.msp import Frame, Framing, request


def answer(command: int, payload: bytes) -> bytes:
    return b"$M>" + request(command, payload)[3:]


def test_the_published_example_of_a_request() -> None:
    assert request(100) == b"$M<\x00\x64\x64"  # MSP_IDENT, of MSP's description


def test_a_command_of_version_2_travels_inside_one_of_version_1() -> None:
    assert request(0x300A) == b"$M<\x06\xff\x00\x0a\x30\x00\x00\xf6" + bytes((6 ^ 255 ^ 0x0A ^ 0x30 ^ 0xF6,))
    answered = answer(0x300A, b"123456")
    assert Framing().feed(answered) == [Frame(0x300A, b"123456", False)]
    broken = bytearray(answered)
    broken[12] ^= 1
    broken[-1] ^= 1  # the outer sum is right
    framing = Framing()
    assert framing.feed(bytes(broken) + answer(1, b"")) == [Frame(1, b"", False)] and framing.malformed == 1


def test_a_frame_is_found_in_any_pieces() -> None:
    whole = answer(102, bytes(range(18))) + answer(150, b"") + b"$M!\x00\x96\x96"
    for size in (1, 2, 3, 5, 7, len(whole)):
        framing, found = Framing(), []
        for at in range(0, len(whole), size):
            found += framing.feed(whole[at : at + size])
        assert found == [
            Frame(102, bytes(range(18)), False),
            Frame(150, b"", False),
            Frame(150, b"", True),
        ]
        assert framing.malformed == 0


def test_a_wrong_checksum_is_counted_and_the_next_frame_found() -> None:
    broken = bytearray(answer(108, b"abcdef"))
    broken[7] ^= 1
    framing = Framing()
    assert framing.feed(bytes(broken) + answer(108, b"abcdef")) == [Frame(108, b"abcdef", False)]
    assert framing.malformed == 1


@given(st.lists(st.binary(max_size=40), max_size=8), st.binary(max_size=30))
def test_noise_gives_no_frame_that_was_not_sent_whole(noise: list[bytes], payload: bytes) -> None:
    framing, stream = Framing(), b"".join(noise)
    found = [frame for piece in noise for frame in framing.feed(piece)]
    for frame in found:  # by chance: its bytes are all there
        assert any(d + request(frame.command, frame.payload)[3:] in stream for d in (b"$M>", b"$M!"))
    for _ in range(2):  # a length in the noise may swallow what follows at once, but not for long
        found = framing.feed(bytes(260) + answer(1, payload))
    assert found[-1] == Frame(1, payload, False)


def test_a_changed_byte_never_passes() -> None:
    generator = np.random.default_rng(2)
    for _ in range(300):
        frame = bytearray(answer(102, generator.bytes(18)))
        frame[generator.integers(len(frame))] ^= 1 << generator.integers(8)
        assert not [f for f in Framing().feed(bytes(frame)) if not f.refused]  # '>' and '!' differ by 5 bits
