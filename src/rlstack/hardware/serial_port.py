"""A serial port that is one program's alone, and that says in one sentence why it does not open."""

from __future__ import annotations

import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlstack.errors import UserError
from rlstack.hardware.uri import RobotUri
from rlstack.libraries import import_library

_WRITE_S = 0.5


class LinkLost(Exception):
    """The port is gone or does not take bytes any more."""


def why_not_open(name: str, error: Exception) -> UserError:
    """Return the error for a port that does not open."""
    text = str(error)
    if "exclusively lock" in text or "busy" in text:
        how = "another program uses it: end that one"
    elif isinstance(error, PermissionError) or "Permission denied" in text:
        how = "add your user to the group dialout, and log in again"
    else:
        how = "plug it in, and check its name"
    return UserError(f"The port {name} cannot be opened ({error}): {how}.")


def port_of(uri: RobotUri, example: str) -> str:
    """Return the port that a URI names.

    Raises:
        UserError: It names none.
    """
    if not uri.path.strip("/"):
        raise UserError(f"The URI '{uri.text}' names no port: give {example}.")
    return uri.path


@contextmanager
def lost_if_gone() -> Iterator[None]:
    """Turn errors of the system and of pyserial into :class:`LinkLost`.

    Raises:
        LinkLost: The port is gone.
    """
    try:
        yield
    except (OSError, termios.error) as error:
        raise LinkLost(str(error)) from error


class SerialPort:
    """A port for bytes.

    Args:
        name: Such as /dev/ttyACM0.
        baud: Its rate.
        extra: The extra of rlstack that installs pyserial.
    """

    def __init__(self, name: str, baud: int, extra: str = "serial") -> None:
        self.name, self._baud, self._extra = name, baud, extra
        self._serial: Any = None

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return self._serial is not None

    def open(self) -> None:
        """Open it.

        Raises:
            UserError: pyserial is missing, or the port is missing, in use or not allowed.
        """
        serial = import_library("serial", self._extra)
        try:
            self._serial = serial.Serial(self.name, self._baud, timeout=0.0, write_timeout=_WRITE_S, exclusive=True)
        except (OSError, ValueError, termios.error) as error:
            raise why_not_open(self.name, error) from error

    def read(self, wait_s: float) -> bytes:
        """Return what came, after waiting at most so long for the first byte.

        Raises:
            LinkLost: The port is gone.
        """
        with lost_if_gone():
            waiting = self._serial.in_waiting
            if not waiting and wait_s > 0.0:
                self._serial.timeout = wait_s
                first = bytes(self._serial.read(1))
                self._serial.timeout = 0.0
                return first + (bytes(self._serial.read(self._serial.in_waiting)) if first else b"")
            return bytes(self._serial.read(waiting)) if waiting else b""

    def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            LinkLost: The port is gone, or takes none.
        """
        with lost_if_gone():
            self._serial.write(data)

    def set_dtr(self, on: bool) -> None:
        """Set the line DTR, where the port has it."""
        try:
            self._serial.dtr = on
        except (OSError, termios.error):  # a port without lines
            return

    def close(self) -> None:
        """Close it; a second call does nothing."""
        port, self._serial = self._serial, None
        if port is not None:
            try:
                port.close()
            except (OSError, termios.error):
                return
