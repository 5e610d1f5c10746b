"""MSP: frames of Betaflight's serial protocol.

A frame is ``$M``, a direction (``<`` to the flight controller, ``>`` from it, ``!`` its refusal), the payload's size,
the command's number, the payload, and the exclusive or of all from the size on. A command above 254 is one of version
2, and travels inside a frame of the command 255: a byte of flags, the number and the size in two bytes each, the
payload, and a CRC-8/DVB-S2 of all these.
"""

from __future__ import annotations

import struct
from functools import reduce
from operator import xor
from typing import NamedTuple

API_VERSION, FC_VARIANT, FC_VERSION, BOARD_INFO = 1, 2, 3, 4
MODE_RANGES, FEATURE_CONFIG, MIXER_CONFIG, RX_CONFIG, RX_MAP, ADVANCED_CONFIG = 34, 36, 42, 44, 64, 90
RAW_IMU, ATTITUDE, RC_TUNING, BOX_IDS, RC_DEADBAND = 102, 108, 111, 119, 125
BATTERY_STATE, MOTOR_CONFIG, STATUS_EX, SET_RAW_RC = 130, 131, 150, 200
FAILSAFE_CONFIG = 75
SENSORS_FOUND = 0x300A
"""Numbers of commands."""

_MOST_PAYLOAD = 254
"""A size of 255 announces a frame of another layout, which none of the commands above needs."""
_DIRECTIONS = b">!"
_VERSION_2 = 255
_INNER = struct.Struct("<BHH")


class Frame(NamedTuple):
    """A frame from the flight controller."""

    command: int
    payload: bytes
    refused: bool
    """Whether the flight controller does not take the command."""


def request(command: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame to the flight controller."""
    if command >= _VERSION_2:
        inner = _INNER.pack(0, command, len(payload)) + payload
        command, payload = _VERSION_2, inner + bytes((_crc(inner),))
    body = bytes((len(payload), command)) + payload
    return b"$M<" + body + bytes((reduce(xor, body),))


def _crc(data: bytes) -> int:
    """Return CRC-8/DVB-S2."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0xD5) & 0xFF if crc & 0x80 else crc << 1
    return crc


def _unpacked(payload: bytes, refused: bool) -> Frame | None:
    """Return the frame of version 2 that a payload is; None: it is none."""
    if len(payload) < _INNER.size + 1 or _crc(payload):  # the CRC cancels what it is of
        return None
    _, command, size = _INNER.unpack_from(payload)
    inner = payload[_INNER.size : -1]
    return Frame(command, inner, refused) if len(inner) == size and command >= _VERSION_2 else None


class Framing:
    """Finds frames in bytes; bytes that are no frame are skipped one by one, so that the next frame is found."""

    def __init__(self) -> None:
        self._rest = b""
        self.malformed = 0
        """How often something looked like a frame and was none."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete."""
        data = self._rest + data
        found, at = [], 0
        while (at := data.find(b"$", at)) >= 0:
            if not self._begins(data[at : at + 5]):
                self.malformed += 1
                at += 1
                continue
            if len(data) < at + 6 or len(data) < (end := at + 6 + data[at + 3]):
                break
            if reduce(xor, data[at + 3 : end]):  # the checksum cancels what it is of
                self.malformed += 1
                at += 1
                continue
            frame: Frame | None = Frame(data[at + 4], data[at + 5 : end - 1], data[at + 2 : at + 3] == b"!")
            if frame is not None and frame.command == _VERSION_2:
                frame = _unpacked(frame.payload, frame.refused)
            if frame is None:
                self.malformed += 1
            else:
                found.append(frame)
            at = end
        self._rest = data[at:] if at >= 0 else b""
        return found

    @staticmethod
    def _begins(head: bytes) -> bool:
        """Return whether up to five bytes may begin a frame."""
        if head[:2] != b"$M"[: len(head)]:
            return False
        return (len(head) < 3 or head[2] in _DIRECTIONS) and (len(head) < 4 or head[3] <= _MOST_PAYLOAD)
