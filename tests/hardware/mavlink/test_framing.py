"""Frames of a codec of our own, cut, changed and mixed with noise."""

from __future__ import annotations

import numpy as np
import pytest

common = pytest.importorskip("pymavlink.dialects.v20.common")

from rlstack.hardware.mavlink.framing import Framing  # noqa: E402
from tests.support.peers._mavlink_wire import frame  # noqa: E402

BEAT = (0, 6 << 16, 2, 12, 129, 4, 3)
ATTITUDE = (31, 1234, 1.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.3)


def framing(datagrams: bool = False, key: bytes | None = None) -> Framing:
    codec = common.MAVLink(None)
    codec.signing.secret_key = key
    return Framing(codec, datagrams=datagrams)


def test_frames_are_found_in_noise_and_across_pieces() -> None:
    reader, generator = framing(), np.random.default_rng(3)
    stream = b"".join(generator.bytes(int(generator.integers(0, 9))) + frame(*ATTITUDE, sequence=k) for k in range(200))
    found = []
    for at in range(0, len(stream), 7):
        found += reader.feed(stream[at : at + 7])
    found += reader.feed(bytes(300))  # what may still be waited for
    attitudes = [message for message in found if message.get_type() == "ATTITUDE_QUATERNION"]
    assert len(attitudes) == 200 and [message.get_seq() for message in attitudes] == list(range(200))
    assert attitudes[0].rollspeed == pytest.approx(0.1)


def test_no_changed_frame_counts_and_none_ends_the_reader() -> None:
    """One byte changed is always found: the checksum is a CRC of 16 bits."""
    reader, generator = framing(datagrams=True), np.random.default_rng(4)
    good = frame(*ATTITUDE)
    for _ in range(3000):
        bad = bytearray(good)
        bad[int(generator.integers(len(bad)))] ^= int(generator.integers(1, 256))
        assert reader.feed(bytes(bad)) == []
        assert reader.feed(bytes(bad[: int(generator.integers(len(bad)))])) == []
        reader.feed(generator.bytes(int(generator.integers(1, 300))))
    assert reader.malformed > 3000
    assert len(reader.feed(good + frame(*BEAT))) == 2


def test_a_datagram_cut_short_does_not_swallow_the_next() -> None:
    reader = framing(datagrams=True)
    assert reader.feed(frame(*ATTITUDE)[:-5]) == [] and reader.malformed >= 1
    assert len(reader.feed(frame(*BEAT))) == 1


def test_unknown_messages_and_flags_are_left_out() -> None:
    reader = framing(datagrams=True)
    unknown = bytearray(frame(*BEAT))
    unknown[7:10] = (60001).to_bytes(3, "little")
    flagged = bytearray(frame(*BEAT))
    flagged[2] = 0x02
    assert reader.feed(bytes(unknown)) == [] and reader.feed(bytes(flagged)) == []


def test_with_a_key_only_what_is_signed_with_it_counts() -> None:
    key, other = bytes(range(32)), bytes(32)
    sender = common.MAVLink(None, srcSystem=1, srcComponent=1)
    sender.signing.secret_key, sender.signing.sign_outgoing = key, True
    beat = common.MAVLink_heartbeat_message(2, 12, 0, 0, 4, 3)
    signed = bytes(beat.pack(sender))
    assert framing(True, key).feed(frame(*BEAT)) == []
    assert framing(True, other).feed(signed) == []
    assert len(framing(True, key).feed(signed)) == 1
