"""TurtleBot3's OpenCR board as a Dynamixel slave (ROBOTIS, its public firmware): control table, heartbeat, wheels.

It answers reads, writes and pings to its number 200 with status return level 2. Its table is renewed every 20 ms. It
forgets the commanded velocity half a second after the last change of the heartbeat. Only heartbeat, lights, sound, IMU
calibration, torque and velocities may be written. The motors' torque is on when it starts.
"""

from __future__ import annotations

import math
import struct
import time
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import load_robot
from tests.support.peers import Misfit
from tests.support.peers._dynamixel import ACCESS, EVERYBODY, LENGTH, PING, READ, STATUS, WRITE, packed, split
from tests.support.peers._terminal import TerminalPeer

NUMBER = 200
MILLIS, DEVICE_STATUS, HEARTBEAT, VOLTAGE, PERCENT, GYROSCOPE, ACCELEROMETER = 10, 18, 19, 42, 46, 60, 72
SPEEDS, POSITIONS, TORQUE, VELOCITY = 128, 136, 149, 150
WRITABLE = (range(19, 24), range(50, 51), range(59, 60), range(149, 182))
SIZE = 256
RENEWED_S, HEARTBEAT_S = 0.02, 0.5
LAG_S = 0.05
FASTEST = 61 * 2.0 * math.pi / 60.0


class OpenCrPeer(TerminalPeer):
    """A Burger on a flat floor; ``pose`` is where its wheels have brought it, x, y, yaw."""

    RADIUS, TRACK = 0.033, 0.160

    def __init__(self) -> None:
        super().__init__()
        self.robot: Any = load_robot("turtlebot3_burger")
        self.table = bytearray(SIZE)
        self.put("<HIBB", 0, 0x5000, 1, 10, NUMBER)
        self.put("<b", DEVICE_STATUS, 1)
        self.put("<II", VOLTAGE, 1200, 9500)
        self.table[TORQUE] = 1
        self.turned, self.speeds = [0.0, 0.0], [0.0, 0.0]
        self.pose = np.zeros(3)
        self.watchdog_stops = 0
        self._wanted = (0.0, 0.0)
        self._beaten_s = -math.inf
        self._connected = False
        self._renewed_s = 0.0
        self._started_s = time.perf_counter()

    @property
    def uri(self) -> str:
        return f"serial://{self.port}?answer_ms=30"

    @property
    def powered(self) -> bool:
        return bool(self.table[TORQUE])

    def rest(self) -> dict[str, Array]:
        return {"twist": np.zeros(2)}

    def misfits(self) -> dict[str, Misfit | str]:
        base = self.robot
        faster = replace(base, limits=replace(base.limits, linear_velocity_m_s=0.5))
        return {
            "in use": self.in_use(),
            "answers twice": "one board is at the end of a USB cable",
            "firmware": Misfit(("TurtleBot3 Waffle", "0.287 m", "0.160 m"), lambda: self.put("<I", 2, 2)),
            "calibration": "there is nothing to calibrate",
            "joints": Misfit(("no connection with its motors", "-1"), lambda: self.put("<b", DEVICE_STATUS, -1)),
            "limits": Misfit(("0.22 m/s", "0.50 m/s"), lambda: setattr(self, "robot", faster)),
            "mass": "it measures no weight",
        }

    def put(self, layout: str, address: int, *values: float) -> None:
        struct.pack_into(layout, self.table, address, *values)

    def tick(self, passed_s: float) -> None:
        now = time.perf_counter()
        connected = now - self._beaten_s < HEARTBEAT_S
        if not connected:
            self.watchdog_stops += self._connected and self._wanted != (0.0, 0.0)
            self._wanted = (0.0, 0.0)
        self._connected = connected
        forward, turn = self._wanted if self.powered else (0.0, 0.0)
        goals = [(forward - 0.5 * self.TRACK * turn) / self.RADIUS, (forward + 0.5 * self.TRACK * turn) / self.RADIUS]
        share = 1.0 - math.exp(-passed_s / LAG_S)
        for k, goal in enumerate(goals):
            goal = min(max(goal, -FASTEST), FASTEST)
            self.speeds[k] += share * (goal - self.speeds[k])
            self.turned[k] += passed_s * self.speeds[k]
        left, right = (self.RADIUS * passed_s * speed for speed in self.speeds)
        yaw = self.pose[2] + 0.5 * (right - left) / self.TRACK
        self.pose += [
            0.5 * (left + right) * math.cos(yaw),
            0.5 * (left + right) * math.sin(yaw),
            (right - left) / self.TRACK,
        ]
        if now - self._renewed_s >= RENEWED_S:
            self._renewed_s = now
            self._renew(now)

    def _renew(self, now: float) -> None:
        self.put("<II", MILLIS, int(1e3 * (now - self._started_s)), int(1e6 * (now - self._started_s)) & 0xFFFFFFFF)
        turn = (self.speeds[1] - self.speeds[0]) * self.RADIUS / self.TRACK
        self.put("<3f", GYROSCOPE, 0.0, 0.0, turn)
        self.put("<3f", ACCELEROMETER, 0.0, 0.0, 9.81)
        self.put("<ii", SPEEDS, *(round(speed * 60.0 / (2.0 * math.pi * 0.229)) for speed in self.speeds))
        self.put("<ii", POSITIONS, *(round(turned * 4096 / (2.0 * math.pi)) for turned in self.turned))

    def frame(self) -> bytes | None:
        packet, self._came = split(self._came)
        return None if packet is None else bytes(packet[:2]) + packet[2]

    def hear(self, frame: bytes) -> None:
        number, instruction, given = frame[0], frame[1], frame[2:]
        if number not in (NUMBER, EVERYBODY):
            return
        address = int.from_bytes(given[:2], "little")
        if instruction == PING:
            self._answer(0, bytes(self.table[0:2]) + bytes([self.table[6]]))
        elif instruction == READ and number == NUMBER:
            count = int.from_bytes(given[2:4], "little")
            inside = address + count <= SIZE
            self._answer(0 if inside else LENGTH, bytes(self.table[address : address + count]) if inside else b"")
        elif instruction == WRITE:
            error = self._write(address, given[2:])
            if number == NUMBER:
                self._answer(error, b"")

    def _write(self, address: int, data: bytes) -> int:
        if not any(address in part and address + len(data) - 1 in part for part in WRITABLE):
            return ACCESS
        before = self.table[HEARTBEAT]
        self.table[address : address + len(data)] = data
        if self.table[HEARTBEAT] != before:
            self._beaten_s = time.perf_counter()
        if address == VELOCITY:
            forward, _, _, _, _, turn = struct.unpack_from("<6i", self.table, VELOCITY)
            self._wanted = (0.01 * forward, 0.01 * turn)
        return 0

    def _answer(self, error: int, data: bytes) -> None:
        self.say(packed(NUMBER, STATUS, bytes([error]) + data))


PEER = OpenCrPeer
