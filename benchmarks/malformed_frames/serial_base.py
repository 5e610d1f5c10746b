"""States and hellos of a base with rlstack's serial protocol."""

from __future__ import annotations

import random
from binascii import crc_hqx
from collections.abc import Callable, Iterator

from _mutations import mutated

from rlstack.hardware.serial_protocol import Parser

PADDING = bytes(64)
"""What a frame that was cut short waits for."""
SIZES = {0x81: 39, 0x82: 26}


def good(chance: random.Random) -> bytes:
    kind = chance.choice(list(SIZES))
    body = bytes([kind, SIZES[kind]]) + chance.randbytes(SIZES[kind])
    return b"\xa5\x5a" + body + crc_hqx(body, 0xFFFF).to_bytes(2, "little")


def whole(data: bytes) -> bool:
    start = data.find(b"\xa5\x5a")
    while start >= 0:
        size = SIZES.get(data[start + 2] if len(data) > start + 2 else 0, -1)
        body, check = data[start + 2 : start + 4 + size], data[start + 4 + size : start + 6 + size]
        if (
            size > 0
            and len(check) == 2
            and body[1] == size
            and crc_hqx(body, 0xFFFF) == int.from_bytes(check, "little")
        ):
            return True
        start = data.find(b"\xa5\x5a", start + 1)
    return False


def frames(chance: random.Random) -> Iterator[bytes]:
    return mutated(good, lambda data: whole(data + PADDING), chance)


def parser() -> Callable[[bytes], bool]:
    def parse(data: bytes) -> bool:
        return bool(Parser().feed(data + PADDING))

    return parse
