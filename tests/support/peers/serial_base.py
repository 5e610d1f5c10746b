"""A microcontroller with the firmware that docs/hardware.md describes: hello, velocity, power, state, watchdog.

Written from that page alone; its CRC is computed bit by bit.
"""

from __future__ import annotations

import math
import struct
import time

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import load_robot
from tests.support.peers import Misfit
from tests.support.peers._terminal import TerminalPeer

MOTORS_ON, STOPPED, WATCHDOG, FAULT, LOW = 1, 2, 4, 8, 16
STATE_S = 0.02
LAG_S = 0.05


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE: polynomial 0x1021, first 0xFFFF, nothing reflected."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def framed(kind: int, payload: bytes) -> bytes:
    body = bytes([kind, len(payload)]) + payload
    return b"\xa5\x5a" + body + struct.pack("<H", crc16(body))


class SerialBasePeer(TerminalPeer):
    """A base with a Burger's wheels."""

    def __init__(self) -> None:
        super().__init__(115200)
        self.robot = load_robot("turtlebot3_burger")
        self.version, self.radius, self.track, self.ticks = 1, 0.033, 0.16, 1440
        self.linear, self.angular, self.watchdog_ms = 0.22, 2.84, 300
        self.flags = 0
        self.battery = (11.8, 80)
        self.turned, self.speeds = [0.0, 0.0], [0.0, 0.0]
        self.wanted = (0.0, 0.0)
        self._told_s = -math.inf
        self._said_s = 0.0
        self._started_s = time.perf_counter()

    @property
    def uri(self) -> str:
        return f"serial://{self.port}?baud=115200"

    @property
    def powered(self) -> bool:
        return bool(self.flags & MOTORS_ON)

    def rest(self) -> dict[str, Array]:
        return {"twist": np.zeros(2)}

    def misfits(self) -> dict[str, Misfit | str]:
        return {
            "in use": self.in_use(),
            "answers twice": "one base is at the end of a cable",
            "firmware": Misfit(("version 2", "version 1"), lambda: setattr(self, "version", 2)),
            "calibration": "there is nothing to calibrate",
            "joints": Misfit(("radius 0.0500 m", "0.0330 m"), lambda: setattr(self, "radius", 0.05)),
            "limits": Misfit(("0.100 m/s", "0.220 m/s"), lambda: setattr(self, "linear", 0.1)),
            "mass": "it measures no weight",
        }

    def press_stop(self, pressed: bool) -> None:
        """Press or release the emergency stop; the motors stay off until they are powered again."""
        self.flags = (self.flags | STOPPED) & ~MOTORS_ON if pressed else self.flags & ~STOPPED

    def tick(self, passed_s: float) -> None:
        now = time.perf_counter()
        if self.powered and now - self._told_s > 1e-3 * self.watchdog_ms:
            self.wanted = (0.0, 0.0)
            self.flags |= WATCHDOG
        forward, turn = self.wanted if self.powered else (0.0, 0.0)
        goals = [(forward - 0.5 * self.track * turn) / self.radius, (forward + 0.5 * self.track * turn) / self.radius]
        share = 1.0 - math.exp(-passed_s / LAG_S)
        for k, goal in enumerate(goals):
            self.speeds[k] += share * (goal - self.speeds[k])
            self.turned[k] += passed_s * self.speeds[k]
        if now - self._said_s >= STATE_S:
            self._said_s = now
            ticks = [round(turned * self.ticks / (2.0 * math.pi)) for turned in self.turned]
            milliseconds = int(1e3 * (now - self._started_s)) & 0xFFFFFFFF
            self.say(
                framed(0x82, struct.pack("<IiifffBB", milliseconds, *ticks, *self.speeds, *self.battery, self.flags))
            )

    def frame(self) -> bytes | None:
        while (start := self._came.find(b"\xa5\x5a")) >= 0 and len(self._came) >= start + 4:
            length = self._came[start + 3]
            if length > 16:
                self._came = self._came[start + 2 :]
                continue
            end = start + 6 + length
            if len(self._came) < end:
                return None
            body, check = self._came[start + 2 : end - 2], self._came[end - 2 : end]
            if crc16(body) != struct.unpack("<H", check)[0]:
                self._came = self._came[start + 2 :]
                continue
            self._came = self._came[end:]
            return body
        return None

    def hear(self, frame: bytes) -> None:
        kind, payload = frame[0], frame[2:]
        if kind == 0x01 and len(payload) == 1:
            measures = (self.radius, self.track, self.ticks, self.linear, self.angular, self.watchdog_ms)
            self.say(framed(0x81, struct.pack("<B16sffIffH", self.version, b"peer", *measures)))
        elif kind == 0x02 and len(payload) == 8:
            self.wanted = struct.unpack("<ff", payload)
            self._told_s = time.perf_counter()
            self.flags &= ~WATCHDOG
        elif kind == 0x03 and len(payload) == 1:
            on = payload[0] and not self.flags & (STOPPED | FAULT)
            self.flags = self.flags | MOTORS_ON if on else self.flags & ~MOTORS_ON
            self._told_s = time.perf_counter()


PEER = SerialBasePeer
