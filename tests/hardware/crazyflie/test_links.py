"""Links to a Crazyflie; the radio's driver is a stand-in, as it needs the radio."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, NamedTuple

import pytest

from rlstack.hardware.crazyflie.links import Outbox, Packet, RadioLink, UdpLink, log_radio_error, parsed

STOP, SETPOINT = (7, 0, b"\0"), (3, 0, bytes(14))


class Sent(NamedTuple):
    header: int
    data: bytes


class StuckRadio:
    """Blocks as cflib's driver does where nobody acknowledges."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.free = threading.Event()
        self.closed = 0

    def send_packet(self, packet: Sent) -> None:
        self.free.wait(2.0)
        self.sent.append(packet)

    def receive_packet(self, wait: float) -> Any:
        time.sleep(wait)

    def close(self) -> None:
        self.closed += 1
        self.free.set()


def test_datagrams_are_packets_or_nothing() -> None:
    assert parsed(b"\x5e\1\2") == Packet(5, 2, b"\1\2")
    assert parsed(b"") is None and parsed(bytes(32)) is None
    null = parsed(b"\xff")
    assert null is not None and null.says_nothing


def test_of_set_points_the_newest_goes_and_goes_first() -> None:
    outbox = Outbox()
    for packet in ((5, 1, b"a"), SETPOINT, (3, 0, b"new"), (5, 1, b"b")):
        outbox.put(*packet)
    assert [outbox.take(0.0) for _ in range(4)] == [(3, 0, b"new"), (5, 1, b"a"), (5, 1, b"b"), None]
    outbox.put(*SETPOINT)
    outbox.put(*STOP)
    assert outbox.take(0.0) == STOP and outbox.take(0.0) is None


def test_a_radio_that_nobody_answers_blocks_no_command_and_the_stop_is_what_waits() -> None:
    radio = StuckRadio()
    link = RadioLink(radio, Sent)
    start = time.monotonic()
    for _ in range(50):
        link.send(*SETPOINT)
    link.send(*STOP)
    assert time.monotonic() - start < 1.0 and len(radio.sent) == 0
    radio.free.set()
    end = time.monotonic() + 3.0
    while len(radio.sent) < 2 and time.monotonic() < end:
        time.sleep(0.002)
    assert len(radio.sent) <= 3 and radio.sent[-1] == Sent(0x70, b"\0")
    link.close()
    link.close()
    assert radio.closed == 1 and not link._sender.is_alive()


def test_what_the_radio_repeats_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            log_radio_error("Too many packets lost\nand a traceback")
    assert [record.getMessage() for record in caplog.records] == ["Crazyradio: Too many packets lost."]


def test_udp_to_where_nobody_is_yet_is_no_error() -> None:
    link = UdpLink("127.0.0.1", 9)
    for _ in range(3):
        link.send(15, 1, b"\0")
        assert link.receive(0.01) == []
    link.close()
