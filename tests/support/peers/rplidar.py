"""An RPLIDAR A1 (Slamtec, interface protocol and application notes): requests, descriptors and nodes of standard scans.

It ignores requests that it does not know and requests with a wrong checksum. A scan begins with a descriptor and goes
on until it is stopped; angles run clockwise from the front, and a distance of 0 says that nothing came back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tests.support.peers._terminal import TerminalPeer

STOP, RESET, SCAN, INFO, HEALTH = 0x25, 0x40, 0x20, 0x50, 0x52
WITH_PAYLOAD = 0x80
NODES, TURNS_HZ = 360, 7.0


class RpLidarPeer(TerminalPeer):
    """A scanner in the middle of something.

    Args:
        distance: Range in m in a direction in rad, clockwise from the front; 0: nothing.
    """

    def __init__(self, distance: Callable[[float], float] = lambda angle: 2.0) -> None:
        super().__init__()
        self.distance = distance
        self.scanning = False
        self.motor = 0
        self.health = 0
        self.gaps = 0
        """Bytes to leave out of the next node, as a line that drops them."""
        self._next = 0
        self._due_s = 0.0

    def frame(self) -> bytes | None:
        while (start := self._came.find(b"\xa5")) >= 0 and len(self._came) >= start + 2:
            command = self._came[start + 1]
            if not command & WITH_PAYLOAD:
                self._came = self._came[start + 2 :]
                return bytes([command])
            if len(self._came) < start + 3:
                return None
            end = start + 4 + self._came[start + 2]
            if len(self._came) < end:
                return None
            packet, self._came = self._came[start:end], self._came[end:]
            check = 0
            for byte in packet[:-1]:
                check ^= byte
            if check == packet[-1]:
                return packet[1:-1]
        return None

    def hear(self, frame: bytes) -> None:
        command = frame[0]
        if command in (STOP, RESET):
            self.scanning = False
        elif command == INFO:
            self.say(bytes([0xA5, 0x5A, 20, 0, 0, 0, 0x04, 0x18, 0x1D, 0x01, 0x07, *range(16)]))
        elif command == HEALTH:
            self.say(bytes([0xA5, 0x5A, 3, 0, 0, 0, 0x06, self.health, 0, 0]))
        elif command == SCAN:
            self.say(bytes([0xA5, 0x5A, 5, 0, 0, 0x40, 0x81]))
            self.scanning, self._next, self._due_s = True, 0, time.perf_counter()
        elif command == 0xF0:
            self.motor = int.from_bytes(frame[2:4], "little")

    def tick(self, passed_s: float) -> None:
        now, nodes = time.perf_counter(), b""
        if not self.scanning:
            return
        while self._due_s <= now and len(nodes) < 4 * NODES:
            nodes += self._node(self._next)
            self._next = (self._next + 1) % NODES
            self._due_s += 1.0 / (NODES * TURNS_HZ)
        if nodes and self._linked:
            self._put(nodes[self.gaps :])
            self.gaps = 0

    def _node(self, index: int) -> bytes:
        angle = 2.0 * math.pi * index / NODES
        quarter_mm = round(4000.0 * self.distance(angle))
        sixty_fourths = round(math.degrees(angle) * 64.0)
        start = index == 0
        return bytes(
            [
                (47 if quarter_mm else 0) << 2 | (0b01 if start else 0b10),
                (sixty_fourths << 1 | 1) & 0xFF,
                sixty_fourths >> 7,
                quarter_mm & 0xFF,
                quarter_mm >> 8,
            ]
        )
