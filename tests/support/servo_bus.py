"""Feetech servos on a pseudo terminal: they speak the bus's protocol (Feetech, protocol of serial bus servos).

A packet is FF FF, number, length, instruction or error, parameters, and the complement of their sum.
"""

from __future__ import annotations

import os
import select
import threading
import tty

PING, READ, WRITE, SYNC_READ = 0x01, 0x02, 0x03, 0x82
EVERYBODY = 0xFE


class ServoBus:
    """Answers on its own thread, as long as the context lasts; ``memory`` is each servo's control table."""

    def __init__(self, *numbers: int) -> None:
        self.memory = {number: bytearray(71) for number in numbers}
        self._ours, self._theirs = os.openpty()
        tty.setraw(self._ours)
        tty.setraw(self._theirs)
        self.path = os.ttyname(self._theirs)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def place(self, number: int, ticks: int) -> None:
        self.memory[number][56:58] = ticks.to_bytes(2, "little")

    def __enter__(self) -> ServoBus:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        os.close(self._ours)
        os.close(self._theirs)

    def _serve(self) -> None:
        came = b""
        while not self._stop.is_set():
            if not select.select([self._ours], [], [], 0.02)[0]:
                continue
            came += os.read(self._ours, 256)
            while (start := came.find(b"\xff\xff")) >= 0 and len(came) >= start + 4:
                end = start + 4 + came[start + 3]
                if len(came) < end:
                    break
                packet, came = came[start:end], came[end:]
                if (~sum(packet[2:-1])) & 0xFF == packet[-1]:
                    self._answer(packet[2], packet[4], packet[5:-1])

    def _answer(self, number: int, instruction: int, given: bytes) -> None:
        if instruction == SYNC_READ:
            for one in given[2:]:
                self._say(one, self.memory[one][given[0] : given[0] + given[1]] if one in self.memory else None)
        elif number in self.memory:
            memory = self.memory[number]
            if instruction == WRITE:
                memory[given[0] : given[0] + len(given) - 1] = given[1:]
            self._say(number, memory[given[0] : given[0] + given[1]] if instruction == READ else b"")

    def _say(self, number: int, data: bytes | bytearray | None) -> None:
        if data is None:
            return
        body = bytes([number, len(data) + 2, 0, *data])
        os.write(self._ours, b"\xff\xff" + body + bytes([(~sum(body)) & 0xFF]))
