"""Data packages of Universal Robots' RTDE. They have no checksum: whole is what has its shape and finite numbers."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator

from _mutations import mutated

from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.ur.rtde import DATA, Packages, Recipe

BODY = struct.Struct(">HBB13d2i")


def good(chance: random.Random) -> bytes:
    numbers = [chance.uniform(-6.0, 6.0) for _ in range(13)]
    return BODY.pack(BODY.size, 85, 1, *numbers, chance.randrange(9), chance.randrange(12))


def whole(data: bytes) -> bool:
    if len(data) < BODY.size:
        return False
    size, kind, recipe, *numbers = BODY.unpack_from(data)
    return size == BODY.size and kind == 85 and recipe == 1 and all(math.isfinite(one) for one in numbers)


def frames(chance: random.Random) -> Iterator[bytes]:
    return mutated(good, whole, chance)


def parser() -> Callable[[bytes], bool]:
    recipe = Recipe(["timestamp", "q", "qd", "mode", "safety"], b"\x01DOUBLE,VECTOR6D,VECTOR6D,INT32,INT32")

    def parse(data: bytes) -> bool:
        """A lost link is the right answer to a broken stream."""
        try:
            return any(kind == DATA and bool(recipe.decode(carried)) for kind, carried in Packages().feed(data))
        except LinkLost:
            return False

    return parse
