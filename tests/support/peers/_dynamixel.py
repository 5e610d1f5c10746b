"""Packets of Dynamixel's protocol 2.0 (ROBOTIS e-Manual), as a device sees them.

FF FF FD 00, number, length (2), instruction, parameters, CRC-16 (2). FF FF FD among the parameters is followed by
another FD. A device answers with instruction 55 and an error first; bit 7 of it says that its hardware has an error. To
a packet with a wrong CRC it answers error 3, or nothing where it is not addressed.
"""

from __future__ import annotations

HEADER = b"\xff\xff\xfd\x00"
PING, READ, WRITE, STATUS, SYNC_READ, SYNC_WRITE = 0x01, 0x02, 0x03, 0x55, 0x82, 0x83
EVERYBODY = 0xFE
RANGE, LENGTH, LIMIT, ACCESS = 4, 5, 6, 7
"""Errors of an answer."""


def crc16(data: bytes) -> int:
    """Return the CRC-16 with the polynomial x^16 + x^15 + x^2 + 1 (0x8005), bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def packed(number: int, instruction: int, parameters: bytes) -> bytes:
    """Return a packet."""
    stuffed = bytes([instruction]) + parameters
    stuffed = stuffed.replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")
    front = HEADER + bytes([number]) + (len(stuffed) + 2).to_bytes(2, "little") + stuffed
    return front + crc16(front).to_bytes(2, "little")


def split(came: bytes) -> tuple[tuple[int, int, bytes] | None, bytes]:
    """Return the first packet (number, instruction, parameters) with a right CRC, and the bytes behind it."""
    while (start := came.find(HEADER)) >= 0 and len(came) >= start + 7:
        length = int.from_bytes(came[start + 5 : start + 7], "little")
        if length < 3 or length > 512:
            came = came[start + 4 :]
            continue
        end = start + 7 + length
        if len(came) < end:
            return None, came
        packet, came = came[start:end], came[end:]
        if crc16(packet[:-2]) == int.from_bytes(packet[-2:], "little"):
            inner = packet[7:-2].replace(b"\xff\xff\xfd\xfd", b"\xff\xff\xfd")
            return (packet[4], inner[0], inner[1:]), came
    return None, came[-512:]
