"""Ways to a Crazyflie: UDP, and the Crazyradio by Bitcraze's cflib. A packet has a port, a channel, up to 30 bytes."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections import deque
from typing import Any, NamedTuple, Protocol

from rlstack.errors import UserError
from rlstack.libraries import import_library

MOST_BYTES = 30
SETPOINT_PORTS = (3, 7)
"""Ports of set-points, among them the one that stops the motors."""
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


class Outbox:
    """What waits to be sent over a slow link: of set-points only the newest, which goes first."""

    def __init__(self) -> None:
        self._setpoint: tuple[int, int, bytes] | None = None
        self._others: deque[tuple[int, int, bytes]] = deque(maxlen=64)
        self._some = threading.Condition()

    def put(self, port: int, channel: int, data: bytes) -> None:
        """Add a packet, in place of a set-point that still waits if it is one."""
        with self._some:
            if port in SETPOINT_PORTS:
                self._setpoint = port, channel, data
            else:
                self._others.append((port, channel, data))
            self._some.notify()

    def take(self, timeout_s: float) -> tuple[int, int, bytes] | None:
        """Return the next packet, waiting for up to ``timeout_s`` for one; None: there is none."""
        with self._some:
            if self._setpoint is None and not self._others:
                self._some.wait(timeout_s)
            if (setpoint := self._setpoint) is not None:
                self._setpoint = None
                return setpoint
            return self._others.popleft() if self._others else None


class RadioLink:
    """The Crazyradio; see :class:`CrazyflieLink`.

    cflib's driver blocks for up to 2 s where nobody acknowledges, so a thread of its own sends.

    Args:
        driver: A connected driver of cflib.
        packet: cflib's class of packets.
    """

    malformed = 0

    def __init__(self, driver: Any, packet: Any) -> None:
        self._driver, self._packet = driver, packet
        self._outbox, self._over = Outbox(), threading.Event()
        self._sender = threading.Thread(target=self._run, name="crazyradio", daemon=True)
        self._sender.start()

    def send(self, port: int, channel: int, data: bytes) -> None:
        """Send a packet soon."""
        self._outbox.put(port, channel, data)

    def _run(self) -> None:
        while not self._over.is_set():
            if (waiting := self._outbox.take(0.1)) is None:
                continue
            port, channel, data = waiting
            try:
                self._driver.send_packet(self._packet(port << 4 | channel, data))
            except Exception as error:  # cflib raises Exception itself; the next packet is tried again
                log_radio_error(str(error))

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
        """Send what waits, for a moment, and release the radio."""
        if self._over.is_set():
            return
        self._over.set()
        self._sender.join(0.2)
        self._driver.close()  # which also frees a sender that nobody answers
        self._sender.join(2.0)


def open_radio(uri: str) -> RadioLink:
    """Return the link over a Crazyradio, ``radio://0/80/2M/E7E7E7E7E7``.

    Raises:
        UserError: cflib is missing, or there is no radio.
    """
    driver = import_library("cflib.crtp.radiodriver", "crazyflie").RadioDriver()
    packet = import_library("cflib.crtp.crtpstack", "crazyflie").CRTPPacket
    try:
        driver.connect(uri, None, log_radio_error)
    except Exception as error:  # cflib raises Exception itself
        raise UserError(
            f"The radio of {uri} cannot be opened ({error}): is the Crazyradio plugged in, is its udev rule installed,"
            " and does no other program have it?"
        ) from error
    return RadioLink(driver, packet)


_logged: tuple[str, float] = "", -1e9


def log_radio_error(text: str) -> None:
    """Log what the radio complains of, the same at most once in 5 s: cflib repeats it with every packet."""
    global _logged
    line, now = text.strip().partition("\n")[0], time.monotonic()
    if line != _logged[0] or now - _logged[1] > 5.0:
        _logged = line, now
        _LOG.warning("Crazyradio: %s.", line)
