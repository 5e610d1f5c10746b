"""A thread that writes a bag, so that a slow disk holds up nobody; what waits for it is bounded."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from rlstack.data.bags.bag_writer import BagWriter
from rlstack.data.bags.mcap_file import Message

FLUSH_S = 0.4
"""Longest time for which a message stays in this process."""

_LARGE_BYTES = 2**16
"""Messages from there on leave a quarter of the room to the small ones: seconds of those."""


def give_way(nice: int) -> None:
    """Let this thread, and no other of its process, give way to others by that much more (Linux only)."""
    with contextlib.suppress(AttributeError, OSError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + nice)


class WritingThread:
    """Writes messages into a bag in a thread of low priority.

    Args:
        writer: The bag; nobody else uses it while the thread runs.
        most_bytes: How much may wait; what comes when that is full is dropped and counted.
        nice: By how much the thread gives way to others (Linux only).
    """

    def __init__(self, writer: BagWriter, *, most_bytes: int = 40 * 2**20, nice: int = 5) -> None:
        self._writer, self._most_bytes, self._nice = writer, most_bytes, nice
        self._waiting: deque[Message | Callable[[BagWriter], None]] = deque()
        self._bytes = 0
        self._lock, self._woken = threading.Lock(), threading.Event()
        self._ends = False
        self.dropped: Counter[str] = Counter()
        """Messages that found no room, by topic."""
        self.error: Exception | None = None
        """Why it has ended; None: it has not, or was asked to."""
        self._thread = threading.Thread(target=self._run, name="bag", daemon=True)
        self._thread.start()

    def put(self, messages: Sequence[Message]) -> None:
        """Write messages."""
        room, added = self._most_bytes - self._bytes, 0
        quarter = self._most_bytes // 4
        kept = []
        for message in messages:
            size = len(message.data)
            if size > room - (quarter if size >= _LARGE_BYTES else 0):
                self.dropped[message.topic] += 1
                continue
            room, added = room - size, added + size
            kept.append(message)
        with self._lock:
            self._bytes += added
            self._waiting.extend(kept)
        self._woken.set()

    def call(self, action: Callable[[BagWriter], None]) -> None:
        """Call a function with the bag, after what was put before."""
        with self._lock:
            self._waiting.append(action)
        self._woken.set()

    def close(self) -> None:
        """Write what waits, and complete the bag.

        Raises:
            Exception: What :attr:`error` says.
        """
        self._ends = True
        self._woken.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        give_way(self._nice)
        try:
            flushed_at = time.monotonic()
            while True:
                ends = self._ends
                self._write_waiting()
                now = time.monotonic()
                if now - flushed_at >= FLUSH_S:
                    self._writer.flush()
                    flushed_at = now
                if ends:
                    self._writer.close()
                    return
                self._woken.wait(max(0.0, FLUSH_S - (now - flushed_at)))
                self._woken.clear()
        except Exception as error:  # whose thread it is finds it there
            self._writer.abandon()
            self.error = error

    def _write_waiting(self) -> None:
        while self._waiting:
            with self._lock:
                item = self._waiting.popleft()
            if isinstance(item, Message):
                self._writer.write(*item)
                with self._lock:
                    self._bytes -= len(item.data)
            else:
                item(self._writer)
