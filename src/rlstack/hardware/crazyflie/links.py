"""Ways to a Crazyflie: UDP, and the Crazyradio by Bitcraze's cflib. A packet has a port, a channel, up to 30 bytes."""

from __future__ import annotations

import logging
import select
import socket
from typing import Any, NamedTuple, Protocol

from rlstack.errors import UserError
from rlstack.libraries import import_library

MOST_BYTES = 30
_LOG = logging.getLogger(__name__)


class Packet(NamedTuple):
    """One CRTP packet."""

    port: int
    channel: int
    data: bytes

    @property
    def says_nothing(self) -> bool:
        """Whether it only keeps the link alive."""
        return self.port == 15 and self.channel == 3


class CrazyflieLink(Protocol):
    """A way to send and receive packets; errors of the link are :class:`OSError`."""

    def send(self, port: int, channel: int, data: bytes) -> None:
        """Send a packet."""

    def receive(self, timeout_s: float) -> list[Packet]:
        """Return the packets that have come, waiting for up to ``timeout_s`` for the first."""

    def close(self) -> None:
        """Close it; a second call does nothing."""


def parsed(datagram: bytes) -> Packet | None:
    """Return the packet of a datagram, a byte with port and channel before the data; None: it is none."""
    if not 1 <= len(datagram) <= 1 + MOST_BYTES:
        return None
    return Packet(datagram[0] >> 4, datagram[0] & 3, datagram[1:])


class UdpLink:
    """CRTP over UDP, one packet to a datagram, as simulated Crazyflies speak it; see :class:`CrazyflieLink`.

    Raises:
        UserError: The host is unknown.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.malformed = 0
        """Datagrams that were no packet."""
        try:
            self._socket.connect((host, port))
        except OSError as error:
            self._socket.close()
            raise UserError(f"UDP {host}:{port} cannot be reached ({error}).") from error

    def send(self, port: int, channel: int, data: bytes) -> None:
        """Send a packet."""
        try:
            self._socket.send(bytes([port << 4 | 0x0C | channel]) + data)
        except ConnectionRefusedError:  # of an earlier datagram: nobody is there yet
            return

    def receive(self, timeout_s: float) -> list[Packet]:
        """Return the packets that have come."""
        found: list[Packet] = []
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return found
        while len(found) < 64:
            try:
                datagram = self._socket.recv(2048)
            except (BlockingIOError, ConnectionError):
                break
            packet = parsed(datagram)
            if packet is None:
                self.malformed += 1
            elif not packet.says_nothing:
                found.append(packet)
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class RadioLink:
    """The Crazyradio, by cflib's driver, which repeats what is not acknowledged; see :class:`CrazyflieLink`.

    Args:
        uri: ``radio://0/80/2M/E7E7E7E7E7``.

    Raises:
        UserError: cflib is missing, or there is no radio.
    """

    malformed = 0

    def __init__(self, uri: str) -> None:
        drivers = import_library("cflib.crtp.radiodriver", "crazyflie")
        self._packet = import_library("cflib.crtp.crtpstack", "crazyflie").CRTPPacket
        self._driver: Any = drivers.RadioDriver()
        try:
            self._driver.connect(uri, None, self._on_error)
        except Exception as error:  # cflib raises Exception itself
            raise UserError(
                f"The radio of {uri} cannot be opened ({error}): is the Crazyradio plugged in, is its udev rule"
                " installed, and does no other program have it?"
            ) from error

    @staticmethod
    def _on_error(text: str) -> None:
        _LOG.warning("Crazyradio: %s.", text.strip())

    def send(self, port: int, channel: int, data: bytes) -> None:
        """Send a packet."""
        self._driver.send_packet(self._packet(port << 4 | channel, data))

    def receive(self, timeout_s: float) -> list[Packet]:
        """Return the packets that have come."""
        found: list[Packet] = []
        wait: float = timeout_s
        while len(found) < 64 and (packet := self._driver.receive_packet(wait)) is not None:
            wait = 0
            if not (received := Packet(packet.port, packet.channel, bytes(packet.data))).says_nothing:
                found.append(received)
        return found

    def close(self) -> None:
        """Release the radio."""
        if self._driver is not None:
            self._driver.close()
        self._driver = None
