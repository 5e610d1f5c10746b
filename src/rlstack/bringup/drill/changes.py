"""Changes of a stream of serialized messages, which a relay applies: late, frozen, jumping, malformed.

A change is called with each message as it arrives and returns the messages to pass on instead. All of these messages
begin with a header, so that their stamps can be read and replaced without deserializing them.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from rlstack.interfaces import cdr
from rlstack.interfaces.messages import NANOSECONDS

Change = Callable[[bytes], Iterable[bytes]]
Edit = Callable[[Any], None]
"""Changes a deserialized message."""

_STAMP = struct.Struct("<iI")
_STAMP_AT = 4


def stamp_ns(data: bytes) -> int:
    """Return the stamp in the header of a serialized message, ns."""
    seconds, nanoseconds = _STAMP.unpack_from(data, _STAMP_AT)
    return int(seconds * NANOSECONDS + nanoseconds)


def with_stamp(data: bytes, stamp: int) -> bytes:
    """Return a serialized message with another stamp, ns, in its header."""
    changed = bytearray(data)
    _STAMP.pack_into(changed, _STAMP_AT, *divmod(max(stamp, 0), NANOSECONDS))
    return bytes(changed)


def lost() -> Change:
    """Pass nothing on."""
    return lambda data: ()


def twice() -> Change:
    """Pass each message on twice."""
    return lambda data: (data, data)


def one_of(count: int) -> Change:
    """Pass on the first of every ``count`` messages."""
    seen = -1

    def change(data: bytes) -> Iterable[bytes]:
        nonlocal seen
        seen += 1
        return (data,) if seen % count == 0 else ()

    return change


def slow(count: int) -> Change:
    """Pass on one of every ``count`` messages, ``count`` - 1 messages late, like a sender that takes so long."""
    seen, held = -1, b""

    def change(data: bytes) -> Iterable[bytes]:
        nonlocal seen, held
        seen += 1
        if seen % count == 0:
            held = data
        return (held,) if seen % count == count - 1 else ()

    return change


def late(delay_s: float, clock: Callable[[], float] = time.monotonic) -> Change:
    """Pass each message on ``delay_s`` after its arrival, or with the first message to arrive after that."""
    waiting: deque[tuple[float, bytes]] = deque()

    def change(data: bytes) -> Iterable[bytes]:
        now = clock()
        waiting.append((now + delay_s, data))
        due = []
        while waiting and waiting[0][0] <= now:
            due.append(waiting.popleft()[1])
        return due

    return change


def frozen(*, new_stamps: bool) -> Change:
    """Repeat the first message for ever, with its own stamp or with those of the messages that it replaces."""
    first = b""

    def change(data: bytes) -> Iterable[bytes]:
        nonlocal first
        first = first or data
        return (with_stamp(first, stamp_ns(data)) if new_stamps else first,)

    return change


def shifted(by_ns: int) -> Change:
    """Add ``by_ns`` to every stamp."""
    return lambda data: (with_stamp(data, stamp_ns(data) + by_ns),)


def another_clock(by_ns: int) -> tuple[Change, Change]:
    """Return changes that set a robot's clock by ``by_ns``: of its observations, and of commands that answer them."""
    newest_ns = 0

    def observations(data: bytes) -> Iterable[bytes]:
        nonlocal newest_ns
        newest_ns = stamp_ns(data)
        return (with_stamp(data, newest_ns + by_ns),)

    def commands(data: bytes) -> Iterable[bytes]:
        back_ns = stamp_ns(data) - by_ns  # a command that answers an observation of before the jump is left as it is
        return (with_stamp(data, back_ns) if abs(back_ns - newest_ns) < abs(by_ns) // 2 else data,)

    return observations, commands


def out_of_order() -> Change:
    """Give the second message a stamp 1 ns before that of the first; pass all others on."""
    seen, first_ns = 0, 0

    def change(data: bytes) -> Iterable[bytes]:
        nonlocal seen, first_ns
        seen += 1
        first_ns = stamp_ns(data) if seen == 1 else first_ns
        return (with_stamp(data, first_ns - 1) if seen == 2 else data,)

    return change


def cut_short() -> Change:
    """Pass on the first half of each message's bytes."""
    return lambda data: (data[: len(data) // 2],)


def edited(message_class: Any, edit: Edit, *, once: bool = False) -> Change:
    """Apply an edit to every message, or only to the first."""
    done = False

    def change(data: bytes) -> Iterable[bytes]:
        nonlocal done
        if once and done:
            return (data,)
        done = True
        return (edited_message(message_class, edit, data),)

    return change


def edited_message(message_class: Any, edit: Edit, data: bytes) -> bytes:
    """Return a serialized message after an edit."""
    from rclpy.serialization import serialize_message

    message = cdr.deserialize(data, message_class)
    edit(message)
    return bytes(serialize_message(message))
