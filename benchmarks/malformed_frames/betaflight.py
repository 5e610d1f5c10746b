"""Answers of a Betaflight flight controller, by MSP."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import reduce
from operator import xor

from _mutations import mutated

from rlstack.hardware.betaflight.msp import Framing

COMMANDS = (102, 108, 130, 150)


def good(chance: random.Random) -> bytes:
    body = bytes((18, chance.choice(COMMANDS))) + chance.randbytes(18)
    return b"$M>" + body + bytes((reduce(xor, body),))


def whole(data: bytes) -> bool:
    """Whether there is a frame in it, of any size, with the right sum."""
    for at in range(len(data) - 5):
        end = at + 6 + data[at + 3]
        begins = data[at : at + 2] == b"$M" and data[at + 2] in b">!" and end <= len(data)
        if begins and reduce(xor, data[at + 3 : end]) == 0:
            return True
    return False


def frames(chance: random.Random) -> Iterator[bytes]:
    return mutated(good, whole, chance)


def parser() -> Callable[[bytes], bool]:
    """Each frame goes to framing of its own: what is left of one may complete with the next, and that is right."""
    return lambda data: bool(Framing().feed(data))
