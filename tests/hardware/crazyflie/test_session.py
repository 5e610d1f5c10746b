"""The session by a link of the test's own: packets that are none, lost ones, and tables."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.crazyflie.links import Packet, parsed
from rlstack.hardware.crazyflie.session import LOG, Block, Session
from rlstack.hardware.crazyflie.toc import Entry, TableError, TableStore, parse_entry, parse_summary
from tests.support.peers.crazyflie import CrazyfliePeer


class Mute:
    """A link that nobody is at."""

    def send(self, port: int, channel: int, data: bytes) -> None:
        pass

    def receive(self, timeout_s: float) -> list[Packet]:
        time.sleep(timeout_s)
        return []

    def close(self) -> None:
        pass


def session(tmp_path: Path) -> tuple[Session, list[tuple[float, ...]]]:
    made = Session(Mute(), "udp://nowhere:1", lambda: None, TableStore(tmp_path))
    got: list[tuple[float, ...]] = []
    block = Block(2, ["a.b", "c.d"], 0.01, lambda stamp, arrived, values: got.append(values))
    block.layout = struct.Struct("<fh")
    made._blocks[2] = block
    return made, got


def test_packets_that_are_none_neither_count_nor_end_the_session(tmp_path: Path) -> None:
    made, got = session(tmp_path)
    generator = np.random.default_rng(5)
    for k in range(20000):
        datagram = generator.bytes(int(generator.integers(0, 40)))
        if k % 2:  # of the log's port, and often of the block
            datagram = bytes([LOG << 4 | 0x0C | 2, int(generator.integers(0, 4))]) + datagram[: k % 12]
        packet = parsed(datagram)
        if packet is not None:
            assert len(packet.data) <= 30
            made._receive(packet, 1.0)
    assert all(len(values) == 2 for values in got)
    assert 0 < len(got) < 1000  # by chance of the block's number and size
    assert made.refused["log data of another size or block"] > 5000


def test_log_data_of_another_size_is_refused(tmp_path: Path) -> None:
    made, got = session(tmp_path)
    good = bytes([2, 1, 0, 0]) + struct.pack("<fh", 0.5, -3)
    for data in (good[:-1], good + b"\0", b"", b"\2", bytes([9]) + good[1:]):
        made._receive(Packet(LOG, 2, data), 1.0)
    assert got == []
    made._receive(Packet(LOG, 2, good), 1.0)
    assert got == [(0.5, -3)]


def test_tables_are_read_and_what_is_none_is_told() -> None:
    assert parse_summary(struct.pack("<BHI", 3, 200, 0xABCD)) == (200, 0xABCD)
    assert parse_entry(struct.pack("<BHB", 2, 7, 0x17) + b"gyro\0x\0") == (7, "gyro.x", Entry(7, 7))
    for data in (b"", b"\3\1", struct.pack("<BHI", 3, 60000, 1)):
        with pytest.raises(TableError):
            parse_summary(data)
    for data in (b"", b"\2\0\0\7ab", struct.pack("<BHB", 2, 7, 7) + b"\0\0\0\0"):
        with pytest.raises(TableError):
            parse_entry(data)


def test_a_table_on_disk_is_used_if_it_is_whole(tmp_path: Path) -> None:
    store, table = TableStore(tmp_path / "new"), {"gyro.x": Entry(0, 7), "gyro.y": Entry(1, 7)}
    assert store.load(5, 0xAB, 2) is None
    store.save(5, 0xAB, table)
    assert store.load(5, 0xAB, 2) == table and store.load(5, 0xAB, 3) is None and store.load(2, 0xAB, 2) is None
    (path,) = (tmp_path / "new").iterdir()
    path.write_text('{"gyro.x": 4}')
    assert store.load(5, 0xAB, 1) is None


def test_parameters_are_set_read_back_and_refused(tmp_path: Path) -> None:
    from rlstack.hardware.crazyflie.links import UdpLink

    with CrazyfliePeer() as peer:
        peer.loss = 0.2  # questions are repeated
        host, port = peer.uri.removeprefix("udp://").split(":")
        made = Session(UdpLink(host, int(port)), peer.uri, lambda: None, TableStore(tmp_path))
        made.start(5.0)
        assert (made.firmware, made.protocol) == ("2025.02", 12)
        made.set_parameter("flightmode.stabModeRoll", 0)
        assert peer.parameters["flightmode.stabModeRoll"][1] == 0
        with pytest.raises(UserError, match=r"no parameter flight\.mode"):
            made.set_parameter("flight.mode", 1)
        peer.deaf.add((2, 2))
        with pytest.raises(UserError, match="= 0 and does not take 1"):
            made.set_parameter("flightmode.stabModeRoll", 1)
        made.close()
