"""MAVLink 2 frames from the public description of the format and of the messages (mavlink.io), without pymavlink."""

from __future__ import annotations

import struct
from collections.abc import Iterator

# number: fields in wire order, extra byte of the checksum
MESSAGES = {
    0: ("<IBBBBB", 50),  # HEARTBEAT: custom_mode, type, autopilot, base_mode, system_status, version
    20: ("<hBB16s", 214),  # PARAM_REQUEST_READ: index, system, component, name
    22: ("<fHH16sB", 220),  # PARAM_VALUE: value, count, index, name, type
    26: ("<I9h", 170),  # SCALED_IMU: ms, acceleration mG, rates mrad/s, field
    31: ("<I4f3f", 246),  # ATTITUDE_QUATERNION: ms, w x y z, rates
    32: ("<I6f", 185),  # LOCAL_POSITION_NED: ms, position, velocity
    76: ("<7fHBBB", 152),  # COMMAND_LONG: seven parameters, number, system, component, confirmation
    77: ("<HBBiBB", 143),  # COMMAND_ACK: number, result, progress, second result, to system, to component
    82: ("<I4f3ffBBB", 49),  # SET_ATTITUDE_TARGET: ms, q, rates, thrust, system, component, mask
    102: ("<Q6f", 158),  # VISION_POSITION_ESTIMATE: us, position, roll pitch yaw
    105: ("<Q13fH", 93),  # HIGHRES_IMU: us, acceleration, rates, field, pressures, temperature, updated
    111: ("<qq", 34),  # TIMESYNC: tc1, ts1
    147: ("<iih10HhBBBb", 154),  # BATTERY_STATUS: consumed mAh, hJ, temperature, cells mV, cA, id, function, type, %
    148: ("<QQIIIIHH8s8s8s", 178),  # AUTOPILOT_VERSION: capabilities, uid, flight version, ...
    253: ("<B50s", 83),  # STATUSTEXT: severity, text
    331: ("<Q3f4f3f3f21f21fBB", 91),  # ODOMETRY: us, position, w x y z, velocity, rates, covariances, frames
}


def checksum(data: bytes) -> int:
    """CRC-16/MCRF4XX, bit by bit."""
    crc = 0xFFFF
    for byte in data:
        low = byte ^ (crc & 0xFF)
        low ^= (low << 4) & 0xFF
        crc = (crc >> 8) ^ (low << 8) ^ (low << 3) ^ (low >> 4)
    return crc & 0xFFFF


def frame(number: int, *values: object, sequence: int = 0, system: int = 1, component: int = 1) -> bytes:
    fields, extra = MESSAGES[number]
    payload = struct.pack(fields, *values).rstrip(b"\0") or b"\0"
    head = bytes([len(payload), 0, 0, sequence & 255, system, component]) + number.to_bytes(3, "little")
    return b"\xfd" + head + payload + checksum(head + payload + bytes([extra])).to_bytes(2, "little")


def frames(data: bytes) -> Iterator[tuple[int, int, tuple[object, ...]]]:
    """Return the sender's system, the number and the fields of each frame of a datagram; wrong ones are left out."""
    at = 0
    while at + 12 <= len(data) and data[at] == 0xFD:
        size = data[at + 1]
        number = int.from_bytes(data[at + 7 : at + 10], "little")
        end = at + 10 + size
        if number in MESSAGES:
            fields, extra = MESSAGES[number]
            if checksum(data[at + 1 : end] + bytes([extra])).to_bytes(2, "little") == data[end : end + 2]:
                payload = data[at + 10 : end].ljust(struct.calcsize(fields), b"\0")
                yield data[at + 5], number, struct.unpack(fields, payload[: struct.calcsize(fields)])
        at = end + 2 + (13 if data[at + 2] & 1 else 0)
