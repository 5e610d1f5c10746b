"""The serial protocol of differential bases, version 1; docs/hardware.md describes it for firmware.

A frame is A5 5A, type, length of the payload, payload, and a CRC-16/CCITT-FALSE (low byte first) of type, length and
payload. Numbers are little-endian.
"""

from __future__ import annotations

import struct
from binascii import crc_hqx
from dataclasses import dataclass
from enum import IntFlag

VERSION = 1
HEADER = b"\xa5\x5a"
ASK, VELOCITY, POWER = 0x01, 0x02, 0x03
"""Messages to the base."""
HELLO, STATE = 0x81, 0x82
"""Messages from it."""
_HELLO, _STATE = struct.Struct("<B16sffIffH"), struct.Struct("<IiifffBB")
_SIZES = {HELLO: _HELLO.size, STATE: _STATE.size}


class Flag(IntFlag):
    """What the base says of itself."""

    MOTORS_ON = 1
    EMERGENCY_STOP = 2
    WATCHDOG = 4
    """It stopped because no velocity came in time."""
    MOTOR_FAULT = 8
    BATTERY_LOW = 16


@dataclass(frozen=True)
class Hello:
    """What the base is: ``track_m`` is between its wheels, ``watchdog_ms`` the age of a velocity that stops it."""

    version: int
    name: str
    wheel_radius_m: float
    track_m: float
    ticks_per_turn: int
    linear_velocity_m_s: float
    angular_velocity_rad_s: float
    watchdog_ms: int


@dataclass(frozen=True)
class State:
    """What the base measured at ``time_ms`` of its clock; wheels left and right, in ticks and rad/s."""

    time_ms: int
    left_ticks: int
    right_ticks: int
    left_rad_s: float
    right_rad_s: float
    battery_v: float
    battery_percent: int
    """0 to 100; 255: not known."""
    flags: Flag


def frame(kind: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    body = bytes([kind, len(payload)]) + payload
    return HEADER + body + crc_hqx(body, 0xFFFF).to_bytes(2, "little")


def ask() -> bytes:
    """Return the question what the base is."""
    return frame(ASK, bytes([VERSION]))


def velocity(linear_m_s: float, angular_rad_s: float) -> bytes:
    """Return a command."""
    return frame(VELOCITY, struct.pack("<ff", linear_m_s, angular_rad_s))


def power(on: bool) -> bytes:
    """Return the order to power the motors, or not."""
    return frame(POWER, bytes([on]))


class Parser:
    """Finds frames from the base in a stream of bytes."""

    def __init__(self) -> None:
        self._came = b""
        self.bad = 0
        """Frames that were dropped: a wrong CRC, an unknown type or a wrong length."""

    def feed(self, data: bytes) -> list[Hello | State]:
        """Return the messages that end in ``data``."""
        self._came += data
        found: list[Hello | State] = []
        while True:
            start = self._came.find(HEADER)
            if start < 0:
                self._came = self._came[-1:]
                return found
            self._came = self._came[start:]
            if len(self._came) < 4:
                return found
            kind, length = self._came[2], self._came[3]
            if _SIZES.get(kind) != length:
                self._skip()
                continue
            end = 6 + length
            if len(self._came) < end:
                return found
            if crc_hqx(self._came[2 : end - 2], 0xFFFF) != int.from_bytes(self._came[end - 2 : end], "little"):
                self._skip()
                continue
            payload, self._came = self._came[4 : end - 2], self._came[end:]
            found.append(_hello(payload) if kind == HELLO else _state(payload))

    def _skip(self) -> None:
        """Look for the next frame behind this header."""
        self.bad += 1
        self._came = self._came[2:]


def _hello(payload: bytes) -> Hello:
    version, name, *rest = _HELLO.unpack(payload)
    return Hello(version, name.rstrip(b"\0").decode("ascii", "replace"), *rest)


def _state(payload: bytes) -> State:
    time_ms, left, right, left_speed, right_speed, volts, percent, flags = _STATE.unpack(payload)
    return State(time_ms, left, right, left_speed, right_speed, volts, percent, Flag(flags & 0x1F))
