"""Answers of Dynamixel servos to a synchronous read of six; those of an OpenCR board are the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from _bus import parser_of
from _mutations import mutated

from rlstack.hardware.servos.kinds import DYNAMIXEL

SIZE = DYNAMIXEL.present[1]
SERVOS = [1, 2, 3, 4, 5, 6]
TABLE = []
for byte in range(256):
    rest = byte << 8
    for _ in range(8):
        rest = (rest << 1 ^ 0x8005 if rest & 0x8000 else rest << 1) & 0xFFFF
    TABLE.append(rest)


def crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = (crc << 8 ^ TABLE[crc >> 8 ^ byte]) & 0xFFFF
    return crc


def pack(number: int, data: bytes) -> bytes:
    stuffed = (b"\x55\x00" + data).replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")
    front = b"\xff\xff\xfd\x00" + bytes([number]) + (len(stuffed) + 2).to_bytes(2, "little") + stuffed
    return front + crc16(front).to_bytes(2, "little")


def whole(data: bytes) -> bool:
    """Whether there is an answer of one of the servos in it with the right CRC."""
    start = data.find(b"\xff\xff\xfd\x00")
    while start >= 0:
        length = int.from_bytes(data[start + 5 : start + 7], "little")
        part = data[start : start + 7 + length]
        if length >= 4 and len(part) == 7 + length and crc16(part[:-2]) == int.from_bytes(part[-2:], "little"):
            return True
        start = data.find(b"\xff\xff\xfd\x00", start + 1)
    return False


def good(chance: random.Random) -> bytes:
    return pack(chance.randint(1, 6), chance.randbytes(SIZE))


def frames(chance: random.Random) -> Iterator[bytes]:
    return mutated(good, whole, chance)


def parser() -> Callable[[bytes], bool]:
    return parser_of(DYNAMIXEL, DYNAMIXEL.present, SERVOS)
