"""Answers of Feetech servos to a synchronous read of six."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from _bus import parser_of
from _mutations import mutated

from rlstack.hardware.servos.kinds import FEETECH

SIZE = FEETECH.present[1]
SERVOS = [1, 2, 3, 4, 5, 6]


def pack(number: int, data: bytes) -> bytes:
    body = bytes([number, len(data) + 2, 0, *data])
    return b"\xff\xff" + body + bytes([~sum(body) & 0xFF])


def whole(data: bytes) -> bool:
    """Whether there is an answer of one of the servos in it, of the right size and with the right sum."""
    for start in range(len(data) - SIZE - 5):
        part = data[start : start + SIZE + 6]
        if (
            part[:2] == b"\xff\xff"
            and part[2] in SERVOS
            and part[3] == SIZE + 2
            and ~sum(part[2:-1]) & 0xFF == part[-1]
        ):
            return True
    return False


def good(chance: random.Random) -> bytes:
    return pack(chance.randint(1, 6), chance.randbytes(SIZE))


def frames(chance: random.Random) -> Iterator[bytes]:
    return mutated(good, whole, chance)


def parser() -> Callable[[bytes], bool]:
    return parser_of(FEETECH, FEETECH.present, SERVOS)
