"""The bytes of a flight controller: a serial port, or TCP for the simulated one. Nothing here waits but for opening."""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import Any

from rlstack.errors import UserError
from rlstack.hardware.serial_port import why_not_open
from rlstack.hardware.uri import RobotUri
from rlstack.libraries import import_library

EXAMPLES = {"serial": "serial:///dev/ttyACM0", "tcp": "tcp://127.0.0.1:5761"}
_OPEN_S = 2.0
_MOST_BYTES = 4096


class Transport:
    """An open connection.

    Args:
        uri: Where to.

    Raises:
        UserError: There is nothing there, it is in use, or pyserial is not installed.
    """

    def __init__(self, uri: RobotUri) -> None:
        self._owner = _opened(uri)
        self._file: int = self._owner.fileno()
        self.unsent = 0
        """Writes that the link did not take in full."""
        self.error = ""
        """What went wrong last; a connection that has failed stays so."""

    def receive(self, timeout_s: float) -> bytes:
        """Return what has arrived, waiting for at most ``timeout_s``; empty: nothing, or the link has failed."""
        try:
            ready, _, _ = select.select([self._file], [], [], timeout_s)
            if not ready:
                return b""
            data = os.read(self._file, _MOST_BYTES)
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as error:
            self.error = str(error)
            return b""
        if not data:
            self.error = "the other end has closed the connection"
        return data

    def send(self, data: bytes) -> None:
        """Send bytes, or drop what the link does not take now; a cut frame is dropped by its checksum."""
        try:
            if os.write(self._file, data) < len(data):
                self.unsent += 1
        except BlockingIOError:
            self.unsent += 1
        except (OSError, ValueError) as error:
            self.unsent += 1
            self.error = str(error)

    def close(self) -> None:
        """Close the connection."""
        self._owner.close()


def forget(link: socket.socket) -> None:
    """Let a connection end without waiting: the simulated firmware could not take its port again for a minute."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _opened(uri: RobotUri) -> Any:
    if uri.scheme == "tcp":
        try:
            made = socket.create_connection((uri.host or "127.0.0.1", uri.port or 5761), timeout=_OPEN_S)
        except OSError as error:
            raise UserError(
                f"No flight controller answers at {uri.text} ({error}): start the simulated one (rlstack sitl), or give"
                " its address."
            ) from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        forget(made)
        made.setblocking(False)
        return made
    serial = import_library("serial", "betaflight")
    try:
        return serial.Serial(uri.path, uri.options["baud"], timeout=0, write_timeout=0, exclusive=True)
    except (OSError, ValueError) as error:
        raise why_not_open(uri.path, error) from error
