"""Universal Robots' client interface: what the robot is, and programs sent to it.

Its messages, sent ten times a second, are a size (4 bytes) and a type (1 byte, 16: the robot's state); that one has
parts of the same shape, of which number 6 is the configuration. All is big-endian.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.ur.session import connected

_STATE, _CONFIGURATION = 16, 6
_LAYOUT = struct.Struct(">12d12d5d6d6d6d6d4i")
_MOST = 1 << 20
_WAIT_S = 2.0


@dataclass(frozen=True)
class Configuration:
    """What a controller says of its arm."""

    lower: Array
    """(6,) rad."""
    upper: Array
    """(6,) rad."""
    velocity_max: Array
    """(6,) rad/s."""
    dh: Array
    """(4, 6) Denavit and Hartenberg's a, d in m, alpha, theta in rad."""

    def flange(self, joints: Array) -> Array:
        """Return the flange's position (3,) in the frame ``base``, m."""
        reached = np.eye(4)
        for a, d, alpha, theta in (self.dh + np.vstack([np.zeros((3, 6)), joints])).T:
            turn, tilt = (math.cos(theta), math.sin(theta)), (math.cos(alpha), math.sin(alpha))
            reached = reached @ np.array(
                [
                    [turn[0], -turn[1] * tilt[0], turn[1] * tilt[1], a * turn[0]],
                    [turn[1], turn[0] * tilt[0], -turn[0] * tilt[1], a * turn[1]],
                    [0.0, tilt[1], tilt[0], d],
                    [0.0, 0.0, 0.0, 1.0],
                ]
            )
        return reached[:3, 3]


def configuration_in(message: bytes) -> Configuration | None:
    """Return the configuration in a message's content (after size and type); None if it has none.

    Raises:
        LinkLost: It is malformed.
    """
    at = 0
    while at + 5 <= len(message):
        size, kind = struct.unpack_from(">IB", message, at)
        if size < 5 or at + size > len(message):
            raise LinkLost(f"a part of {size} bytes in the state of the robot")
        if kind == _CONFIGURATION:
            if size < 5 + _LAYOUT.size:
                raise LinkLost(f"a configuration of {size} bytes")
            values = np.array(_LAYOUT.unpack_from(message, at + 5)[:65])
            if not np.isfinite(values).all():
                raise LinkLost("a configuration that is not finite")
            ranges, speeds = values[:12].reshape(6, 2), values[12:24].reshape(6, 2)
            a, d, alpha, theta = values[29:53].reshape(4, 6)
            return Configuration(ranges[:, 0], ranges[:, 1], speeds[:, 0], np.array([a, d, alpha, theta]))
        at += size
    return None


class ClientInterface:
    """One connection, for every question and every program a new one: the robot drops those that do not listen."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    def configuration(self) -> Configuration:
        """Return what the arm is.

        Raises:
            UserError: Nobody is there, or it says nothing of this.
        """
        end, came = time.monotonic() + _WAIT_S, b""
        with connected(self._host, self._port, "The client interface") as link:
            while time.monotonic() < end:
                link.settimeout(max(end - time.monotonic(), 0.01))
                try:
                    data = link.recv(65536)
                except OSError:
                    break
                if not data:
                    break
                came += data
                while len(came) >= 5:
                    size, kind = struct.unpack_from(">IB", came)
                    if not 5 <= size <= _MOST:
                        raise LinkLost(f"a message of {size} bytes on port {self._port}")
                    if len(came) < size:
                        break
                    found = configuration_in(came[5:size]) if kind == _STATE else None
                    if found is not None:
                        return found
                    came = came[size:]
        raise UserError(
            f"{self._host}:{self._port} does not say which arm it is within {_WAIT_S:g} s: is it the port of the"
            " primary or secondary client interface (30001, 30002)?"
        )

    @contextmanager
    def running(self, program: str) -> Iterator[None]:
        """Send a program, which ends the one that runs, and keep the connection meanwhile.

        Closing it at once could lose the program, as the controller's messages have not been read.

        Raises:
            UserError: Nobody is there.
            LinkLost: The connection breaks.
        """
        with connected(self._host, self._port, "The client interface") as link:
            try:
                link.sendall(program.encode("ascii"))
            except OSError as error:
                raise LinkLost(str(error)) from error
            yield
