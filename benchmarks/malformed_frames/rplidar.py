"""Turns of a scanner of which a part is broken, between two good ones: none of them may be taken for a turn.

A standard scan has no checksum. A broken turn is one in which a node's check bits are wrong, bytes are missing or too
many, or angles go back; a distance alone that is wrong cannot be told.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

from rlstack.hardware.captures.rplidar import NodeParser

NODES = 72


def turn(chance: random.Random) -> bytearray:
    data = bytearray()
    for k in range(NODES):
        angle, far = round(360.0 * k / NODES * 64.0), chance.randint(1000, 8000)
        data += bytes([47 << 2 | (1 if k == 0 else 2), (angle << 1 | 1) & 0xFF, angle >> 7, far & 0xFF, far >> 8])
    return data


def good(chance: random.Random) -> bytes:
    return bytes(turn(chance))


def frames(chance: random.Random) -> Iterator[bytes]:
    while True:
        data = turn(chance)
        kind, node = chance.randrange(4), chance.randrange(1, NODES)
        if kind == 0:  # check bits of a node
            data[5 * node] = data[5 * node] & 0xFC | chance.choice((0, 3))
        elif kind == 1:  # bytes are lost
            del data[5 * node : 5 * node + chance.randint(1, 4)]
        elif kind == 2:  # bytes slip in
            data[5 * node : 5 * node] = chance.randbytes(chance.randint(1, 4))
        else:  # an angle goes back
            back = max(round(360.0 * node / NODES * 64.0) - chance.randint(1000, 8000), 0)
            if back > (360.0 * (node - 1) / NODES - math.degrees(0.1)) * 64.0 - 1.0:
                continue
            data[5 * node + 1], data[5 * node + 2] = (back << 1 | 1) & 0xFF, back >> 7
        yield bytes(data)


def parser() -> Callable[[bytes], bool]:
    end = bytes(turn(random.Random(0))[:40])

    def parse(data: bytes) -> bool:
        return bool(NodeParser().feed(data + end))

    return parse
