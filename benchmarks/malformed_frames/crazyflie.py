"""Log data of a Crazyflie: CRTP has no checksum (the radio does), so size, block, rotation and time must be right."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from _mutations import mutated

from rlstack.hardware.crazyflie.links import parsed
from rlstack.hardware.crazyflie.measurements import Measurements
from rlstack.hardware.crazyflie.session import Session

LOG_DATA, ATTITUDE = 0x52, struct.Struct("<4f3h")
_stamp = 0


def good(chance: random.Random) -> bytes:
    global _stamp
    _stamp += 10
    half = chance.uniform(-math.pi, math.pi)
    q = (0.0, 0.0, math.sin(half), math.cos(half))
    rates = [chance.randrange(-3000, 3000) for _ in range(3)]
    return bytes([LOG_DATA | 0x0C, 1]) + (_stamp & 0xFFFFFF).to_bytes(3, "little") + ATTITUDE.pack(*q, *rates)


def whole(data: bytes) -> bool:
    if len(data) != 5 + ATTITUDE.size or data[0] & 0xF3 != LOG_DATA or data[1] != 1:
        return False
    q = ATTITUDE.unpack(data[5:])[:4]
    return abs(math.sqrt(sum(min(abs(c), 1e9) ** 2 for c in q)) - 1.0) < 0.02


def frames(chance: random.Random) -> Iterator[bytes]:
    return mutated(good, whole, chance)


class _NoLink:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the link is used: {name}")


def parser() -> Callable[[bytes], bool]:
    states: list[float] = []
    measured = Measurements(lambda stamp, arrived: states.append(stamp), lambda bits, thrust, arrived: None)
    session = Session(_NoLink(), "here", lambda: None)  # type: ignore[arg-type]
    for block, layout in zip(measured.blocks(100.0, 100.0), ("<6h", "<4f3h", "<6f", "<fBHf")):
        block.layout = struct.Struct(layout)
        session._blocks[block.number] = block

    def measure(number: int, values: tuple[float, ...]) -> None:
        block = session._blocks[number]
        stamp = (_stamp & 0xFFFFFF).to_bytes(3, "little")
        packet = parsed(bytes([LOG_DATA, number]) + stamp + block.layout.pack(*values))
        assert packet is not None
        session._receive(packet, _stamp / 1e3)

    def parse(data: bytes) -> bool:
        measure(0, (0,) * 6)
        measure(2, (0.0,) * 6)
        measure(3, (3.9, 80, 15, 0.0))
        del states[:]
        if (packet := parsed(data)) is not None:
            session._receive(packet, _stamp / 1e3)
        return bool(states)

    return parse
