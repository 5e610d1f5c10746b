"""Ways to break a frame; what comes out may still be one, which whoever calls must sort out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator


def mutated(
    good: Callable[[random.Random], bytes], whole: Callable[[bytes], bool], chance: random.Random
) -> Iterator[bytes]:
    """Yield byte strings in which there is no whole frame by ``whole``, endlessly."""
    while True:
        frame = bytearray(good(chance))
        kind = chance.randrange(6)
        if kind == 0:  # a byte or more is another
            for _ in range(chance.randint(1, 4)):
                frame[chance.randrange(len(frame))] = chance.randrange(256)
        elif kind == 1:  # cut short
            del frame[chance.randrange(1, len(frame)) :]
        elif kind == 2:  # bytes are lost on the way
            for _ in range(chance.randint(1, 3)):
                del frame[chance.randrange(len(frame))]
        elif kind == 3:  # bytes slip in
            frame.insert(chance.randrange(len(frame)), chance.randrange(256))
        elif kind == 4:  # noise
            frame = bytearray(chance.randbytes(chance.randint(1, 64)))
        else:  # one bit has flipped
            frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
        if not whole(bytes(frame)):
            yield bytes(frame)
