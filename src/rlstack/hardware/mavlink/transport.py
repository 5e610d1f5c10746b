"""Where MAVLink's bytes go: UDP, TCP or a serial port, by the robot's URI."""

from __future__ import annotations

import select
import socket
from typing import Any, Protocol

from rlstack.errors import UserError
from rlstack.hardware.serial_port import why_not_open
from rlstack.hardware.uri import RobotUri
from rlstack.libraries import import_library

EXAMPLES = {
    "udp": "udp://0.0.0.0:14550",
    "udpin": "udpin://0.0.0.0:14550",
    "udpout": "udpout://192.168.1.10:14555",
    "tcp": "tcp://127.0.0.1:5760",
    "serial": "serial:///dev/ttyACM0?baud=921600",
}
"""An example for each scheme: ``udp`` and ``udpin`` listen for the autopilot, ``udpout`` and ``tcp`` go to it."""

_MOST_BYTES = 65536


class Transport(Protocol):
    """A way to send and receive bytes; errors of the link are :class:`OSError`."""

    datagrams: bool
    """Whether each reading is a whole number of frames, so that nothing is carried over to the next."""

    def receive(self, timeout_s: float) -> bytes:
        """Return what has arrived, waiting for up to ``timeout_s``; empty: nothing."""

    def send(self, data: bytes) -> None:
        """Send bytes; where nobody has been heard yet, nothing."""

    def heard(self) -> None:
        """Take the sender of the last bytes for the autopilot: what is sent goes to it from now on."""

    def close(self) -> None:
        """Close it; a second call does nothing."""


class UdpTransport:
    """UDP; see :class:`Transport`.

    Args:
        host: Own address to listen on, or the autopilot's.
        port: Own port, or the autopilot's.
        listen: Whether the autopilot speaks first.

    Raises:
        UserError: The address is unknown, or the port is in use.
    """

    datagrams = True

    def __init__(self, host: str, port: int, *, listen: bool) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._last: Any = None
        try:
            if listen:
                self._socket.bind((host, port))
                self._to: Any = None
            else:
                self._to = (socket.gethostbyname(host), port)
                self._socket.bind(("", 0))
        except OSError as error:
            self._socket.close()
            what = "in use, or not this machine's address" if listen else "not an address"
            raise UserError(
                f"UDP {host}:{port} is {what} ({error}): end the other program (a ground station?) or choose another"
                " port."
            ) from error

    def receive(self, timeout_s: float) -> bytes:
        """Return one datagram; empty if none came."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return b""
        try:
            data, self._last = self._socket.recvfrom(_MOST_BYTES)
        except (BlockingIOError, ConnectionError):  # an earlier datagram met a closed port: nobody is there yet
            return b""
        return data

    def send(self, data: bytes) -> None:
        """Send one datagram."""
        if self._to is not None:
            self._socket.sendto(data, self._to)

    def heard(self) -> None:
        """Answer to where the last datagram came from."""
        self._to = self._last

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class TcpTransport:
    """TCP; see :class:`Transport`.

    Raises:
        UserError: Nobody accepts the connection.
    """

    datagrams = False

    def __init__(self, host: str, port: int, timeout_s: float = 3.0) -> None:
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise UserError(f"Nobody listens on TCP {host}:{port} ({error}): is the autopilot running?") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def receive(self, timeout_s: float) -> bytes:
        """Return bytes; empty if none came."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return b""
        if not (data := self._socket.recv(_MOST_BYTES)):
            raise ConnectionResetError("the other end has closed the connection")
        return data

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def heard(self) -> None:
        """Nothing to do: there is one other end."""

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class SerialTransport:
    """A serial port; see :class:`Transport`.

    Raises:
        UserError: It cannot be opened.
    """

    datagrams = False

    def __init__(self, path: str, baud: int) -> None:
        serial = import_library("serial", "mavlink")
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=0.05, exclusive=True)
        except (OSError, ValueError) as error:
            raise why_not_open(path, error) from error

    def receive(self, timeout_s: float) -> bytes:
        """Return bytes; empty if none came."""
        if not select.select([self._port], [], [], timeout_s)[0]:
            return b""
        return bytes(self._port.read(_MOST_BYTES))

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._port.write(data)

    def heard(self) -> None:
        """Nothing to do: there is one other end."""

    def close(self) -> None:
        """Close the port."""
        self._port.close()


def check_transport(uri: RobotUri) -> None:
    """Raise ``UserError`` if a URI of :data:`EXAMPLES` lacks its device, or its host and port."""
    if uri.scheme == "serial":
        if not uri.path.strip("/"):
            raise UserError(f"The URI '{uri.text}' names no device: give {EXAMPLES['serial']}.")
        if uri.options["baud"] < 1:
            raise UserError(f"The URI '{uri.text}' has baud={uri.options['baud']}: must be above 0.")
    elif not uri.host or not uri.port:
        raise UserError(f"The URI '{uri.text}' lacks the host or the port: give {EXAMPLES[uri.scheme]}.")


def open_transport(uri: RobotUri) -> Transport:
    """Return the open way that a checked URI names.

    Raises:
        UserError: It cannot be opened.
    """
    if uri.scheme == "serial":
        return SerialTransport(uri.path, uri.options["baud"])
    if uri.scheme == "tcp":
        return TcpTransport(uri.host, uri.port)
    return UdpTransport(uri.host, uri.port, listen=uri.scheme != "udpout")
