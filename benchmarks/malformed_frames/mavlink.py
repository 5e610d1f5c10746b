"""Frames of MAVLink 2, of every message that the driver reads; what is whole, a checksum of this file decides."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

from _mutations import mutated

from rlstack.hardware.mavlink.framing import Framing
from rlstack.libraries import import_library

READ = (0, 22, 26, 31, 32, 77, 105, 111, 147, 148, 253, 331)
"""Numbers of the messages."""
PADDING = bytes(300)
"""What a frame that was cut short waits for."""
dialect = import_library("pymavlink.dialects.v20.common", "mavlink")


def checksum(data: bytes) -> int:
    """CRC-16/MCRF4XX."""
    crc = 0xFFFF
    for byte in data:
        low = (byte ^ crc) & 0xFF
        low = (low ^ (low << 4)) & 0xFF
        crc = (crc >> 8) ^ (low << 8) ^ (low << 3) ^ (low >> 4)
    return crc


def good(chance: random.Random) -> bytes:
    number = chance.choice(READ)
    kind = dialect.mavlink_map[number]
    payload = chance.randbytes(struct.calcsize(kind.unpacker.format))[: 8 + chance.randrange(200)]
    head = bytes([len(payload), 0, 0, chance.randrange(256), 1, 1]) + number.to_bytes(3, "little")
    return b"\xfd" + head + payload + checksum(head + payload + bytes([kind.crc_extra])).to_bytes(2, "little")


def whole(data: bytes) -> bool:
    data += PADDING
    for start, byte in enumerate(data):
        head, tail = {0xFD: (10, 2), 0xFE: (6, 2)}.get(byte, (0, 0))
        if not head or start + head > len(data):
            continue
        if byte == 0xFD and data[start + 2] & 1:
            tail += 13
        end = start + head + data[start + 1]
        number = int.from_bytes(data[start + 7 : start + 10], "little") if byte == 0xFD else data[start + 5]
        if number not in dialect.mavlink_map or end + tail > len(data):
            continue
        extra = bytes([dialect.mavlink_map[number].crc_extra])
        if checksum(data[start + 1 : end] + extra) == int.from_bytes(data[end : end + 2], "little"):
            return True
    return False


def frames(chance: random.Random) -> Iterator[bytes]:
    return mutated(good, whole, chance)


def parser() -> Callable[[bytes], bool]:
    codec = dialect.MAVLink(None)
    return lambda data: bool(Framing(codec, datagrams=False).feed(data + PADDING))
