"""Scanners of the RPLIDAR class (Slamtec A1, A2, A3): standard scans of their serial protocol."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.serial_port import LinkLost, SerialPort
from rlstack.interfaces.backend import Capture
from rlstack.robots.sensing import Lidar

STOP, SCAN, GET_INFO, GET_HEALTH, MOTOR = 0x25, 0x20, 0x50, 0x52, 0xF0
_INFO, _HEALTH, _NODES = 0x04, 0x06, 0x81
"""Types of answers."""
_FULL_SPEED = 660
"""The A2's motor, of 1023."""
_ANSWER_S = 1.0
_FIRST_S = 6.0
"""How long the motor may take to turn."""
_SILENT_S = 1.0
_AGAIN_S = 0.5
_FEWEST = 50
"""Nodes of a revolution that counts."""
_END_RAD = 0.5
"""How far from straight ahead a turn may begin and end."""
_SURE = 6
"""Good nodes after a turn, without which it does not count."""
_BACK_RAD = 0.1
"""By how much an angle may go back from one node to the next: they are interpolated."""


def request(command: int, payload: bytes = b"") -> bytes:
    """Return a request; one with a payload ends in the exclusive or of all before it."""
    packet = bytes([0xA5, command | (0x80 if payload else 0)])
    if payload:
        packet += bytes([len(payload)]) + payload
        check = 0
        for byte in packet:
            check ^= byte
        packet += bytes([check])
    return packet


@dataclass(frozen=True)
class Revolution:
    """One turn of the scanner.

    Args:
        angles_rad: (nodes,) clockwise from the scanner's front, ascending.
        ranges_m: (nodes,); NaN or infinite where nothing came back.
    """

    angles_rad: Array
    ranges_m: Array


class NodeParser:
    """Nodes of 5 bytes as revolutions. A node has three check bits alone, so a turn with one wrong node is dropped.

    Args:
        silence_m: The range where nothing came back.
    """

    def __init__(self, silence_m: float = np.nan) -> None:
        self._silence_m = silence_m
        self._came = b""
        self._nodes: list[tuple[float, float]] = []
        self._waiting: Revolution | None = None
        """A turn until a few nodes behind it have shown that its end was no accident."""
        self._whole = False
        """Whether the present turn has been followed from its beginning, without a wrong node."""
        self.bad = 0
        """Turns that were dropped."""

    def feed(self, data: bytes) -> list[Revolution]:
        """Return the turns that end in ``data``."""
        self._came += data
        found: list[Revolution] = []
        while len(self._came) >= 5:
            first, second = self._came[0], self._came[1]
            if (first & 1) == (first >> 1 & 1) or not second & 1:
                self._came = self._came[1:]
                self._drop()
                continue
            node, self._came = self._came[:5], self._came[5:]
            angle = math.radians((node[2] << 7 | node[1] >> 1) / 64.0)
            far = (node[4] << 8 | node[3]) / 4000.0
            if first & 1:
                if angle > _END_RAD:
                    self._drop()  # turns begin ahead
                    continue
                if self._whole and len(self._nodes) >= _FEWEST and self._nodes[-1][0] > 2.0 * math.pi - _END_RAD:
                    self._waiting = self._turn()
                self._nodes, self._whole = [], True
            elif self._nodes and angle < self._nodes[-1][0] - _BACK_RAD:
                self._drop()
            if angle > 2.0 * math.pi + _BACK_RAD:
                self._drop()
            self._nodes.append((angle, far))
            if self._waiting is not None and len(self._nodes) > _SURE:
                found.append(self._waiting)
                self._waiting = None
            if len(self._nodes) > 20000:
                self._drop()
        return found

    def _drop(self) -> None:
        self.bad += self._whole
        self._nodes, self._whole, self._waiting = [], False, None

    def _turn(self) -> Revolution:
        nodes = np.array(self._nodes)
        nodes = nodes[np.argsort(nodes[:, 0], kind="stable")]
        return Revolution(nodes[:, 0], np.where(nodes[:, 1] > 0.0, nodes[:, 1], self._silence_m))


def rays(turn: Revolution, lidar: Lidar, yaw_rad: float = 0.0) -> Array:
    """Return the ranges (rays,) m of a robot file's lidar: each ray is the nearest node, NaN where there is none.

    Args:
        turn: The revolution.
        lidar: The lidar.
        yaw_rad: Where the scanner's front points in the lidar's frame, counter-clockwise.
    """
    around = 2.0 * math.pi
    at = np.mod(yaw_rad - turn.angles_rad, around)
    order = np.argsort(at, kind="stable")
    at, far = at[order], turn.ranges_m[order]
    wanted = np.mod(lidar.angles_rad, around)
    after = np.searchsorted(at, wanted) % len(at)
    before = after - 1
    gaps = np.abs(np.stack([at[before], at[after]]) - wanted)
    gaps = np.minimum(gaps, around - gaps)
    nearest = np.where(gaps[0] <= gaps[1], before, after)
    reach = max(0.5 * lidar.angle_increment_rad, 1.5 * around / len(at))
    found = np.where(gaps.min(axis=0) <= reach, far[nearest], np.nan)
    found = np.where(found > lidar.range_max_m, np.inf, found)
    return np.where(found < lidar.range_min_m, -np.inf, found)


class RpLidar:
    """See :class:`rlstack.hardware.captures.Source`.

    Args:
        lidar: What the robot file says of it.
        device: Its serial port.
        baud: 115200 (A1, A2M8) or 256000 (A2M12, A3).
        yaw_rad: Where its front points in the lidar's frame, counter-clockwise.
        zero_is_far: Whether nothing that comes back means that nothing is within range; otherwise it is not measured.

    Raises:
        UserError: The robot file's lidar has several rings.
    """

    def __init__(self, lidar: Lidar, device: str, baud: int, yaw_rad: float, *, zero_is_far: bool) -> None:
        if lidar.rings != 1:
            raise UserError(f"The scanner on {device} has one ring, and the robot file's lidar has {lidar.rings}.")
        self._lidar, self._yaw_rad = lidar, yaw_rad
        self._silence_m = np.inf if zero_is_far else np.nan
        self._port = SerialPort(device, baud)
        self._parser = NodeParser(self._silence_m)
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._newest: Capture | None = None
        self._turned_s = 0.0

    def open(self) -> None:
        """See :meth:`rlstack.hardware.captures.Source.open`."""
        self._ending.clear()
        self._newest = None
        try:
            self._start()
            end = time.monotonic() + _FIRST_S
            while self._newest is None:
                if time.monotonic() > end:
                    raise UserError(f"The scanner on {self._port.name} does not turn: check its supply and motor.")
                self._take(0.05)
        except LinkLost as error:
            self._port.close()
            raise UserError(f"The scanner on {self._port.name} was lost ({error}): check its cable.") from error
        except UserError:
            self._port.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="rlstack lidar", daemon=True)
        self._thread.start()

    def capture(self) -> Capture:
        """See :meth:`rlstack.hardware.captures.Source.capture`."""
        newest = self._newest
        if newest is None:
            raise UserError(f"The scanner on {self._port.name} is not open.")
        return newest

    def close(self) -> None:
        """See :meth:`rlstack.hardware.captures.Source.close`; the motor stops."""
        self._ending.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(5.0)
        if self._port.is_open:
            try:
                self._port.write(request(STOP) + request(MOTOR, bytes(2)))
                self._port.set_dtr(True)
            except LinkLost:
                pass
            self._port.close()

    def _start(self) -> None:
        """Open the port, ask what and how it is, and let it scan."""
        port = self._port
        port.open()
        port.write(request(STOP))
        while port.read(0.02):  # what an earlier scan has left
            pass
        self._answer(GET_INFO, _INFO, 20)
        health = self._answer(GET_HEALTH, _HEALTH, 3)
        if health[0] == 2:
            code = int.from_bytes(health[1:3], "little")
            raise UserError(
                f"The scanner on {port.name} reports the error {code:#06x}: unplug it and plug it in again."
            )
        port.set_dtr(False)  # the A1's motor
        port.write(request(MOTOR, _FULL_SPEED.to_bytes(2, "little")))  # the A2's
        self._parser = NodeParser(self._silence_m)
        port.write(request(SCAN))
        rest = self._described(_NODES)
        self._turned_s = time.time()
        self._parser.feed(rest)

    def _answer(self, command: int, kind: int, size: int) -> bytes:
        self._port.write(request(command))
        came, end = self._described(kind), time.monotonic() + _ANSWER_S
        while len(came) < size:
            if time.monotonic() > end:
                raise UserError(
                    f"The scanner on {self._port.name} broke off while it said what it is: check its cable."
                )
            came += self._port.read(0.02)
        return came[:size]

    def _described(self, kind: int) -> bytes:
        """Wait for the descriptor of an answer of a kind; return the bytes behind it."""
        came, end = b"", time.monotonic() + _ANSWER_S
        while True:
            start = came.find(b"\xa5\x5a")
            while start >= 0 and len(came) >= start + 7:
                if came[start + 6] == kind:
                    return came[start + 7 :]
                start = came.find(b"\xa5\x5a", start + 1)
            if time.monotonic() > end:
                raise UserError(
                    f"No scanner of the RPLIDAR class answers on {self._port.name}: check its cable and baud rate"
                    " (115200 for an A1, 256000 for an A2M12 or A3)."
                )
            came += self._port.read(0.02)

    def _take(self, wait_s: float) -> bool:
        """Read what came; return whether anything did."""
        data = self._port.read(wait_s)
        for turn in self._parser.feed(data):
            now = time.time()
            middle = 0.5 * (self._turned_s + now) if now - self._turned_s < 1.0 else now
            self._turned_s = now
            found = rays(turn, self._lidar, self._yaw_rad)
            self._newest = Capture(middle, {"ranges": found.astype(np.float32)})
        return bool(data)

    def _serve(self) -> None:
        heard_s = time.monotonic()
        while not self._ending.is_set():
            try:
                if not self._port.is_open:
                    self._start()
                if self._take(0.02):
                    heard_s = time.monotonic()
                elif time.monotonic() - heard_s > _SILENT_S:
                    raise LinkLost("it is silent")
            except (LinkLost, UserError):
                self._port.close()  # its last capture grows old until it is back
                self._ending.wait(_AGAIN_S)
                heard_s = time.monotonic()
