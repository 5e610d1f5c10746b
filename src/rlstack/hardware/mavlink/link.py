"""A MAVLink 2 link: messages in and out, with a lock, so that any thread may send."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from rlstack.hardware.mavlink.framing import Framing
from rlstack.hardware.mavlink.transport import Transport

ONBOARD_COMPUTER = 191
"""``MAV_COMP_ID_ONBOARD_COMPUTER``."""
_EPOCH_2015_S = 1420070400
"""Signatures count tens of microseconds since then."""
_LOG = logging.getLogger(__name__)


class Link:
    """Sends and receives messages of one connection.

    Args:
        transport: The open connection, which it closes.
        dialect: pymavlink's module of messages.
        key: 32 bytes with which every message is signed, and without whose signature none is taken; None: unsigned.
    """

    def __init__(self, transport: Transport, dialect: Any, key: bytes | None = None) -> None:
        self._transport, self.dialect = transport, dialect
        self._codec = dialect.MAVLink(None, srcSystem=255, srcComponent=ONBOARD_COMPUTER)
        if key is not None:
            signing = self._codec.signing
            signing.secret_key, signing.sign_outgoing = key, True
            signing.timestamp = int((time.time() - _EPOCH_2015_S) * 1e5)
        self._framing = Framing(self._codec, datagrams=transport.datagrams)
        self._lock = threading.Lock()
        self.unsent = 0
        """Messages that could not be sent."""
        self.error = ""
        """What went wrong with the connection last."""

    @property
    def malformed(self) -> int:
        """Bytes that looked like the start of a frame and were none."""
        return self._framing.malformed

    @property
    def badly_signed(self) -> int:
        """Messages without the right signature, if one is wanted."""
        return int(self._codec.signing.badsig_count + self._codec.signing.reject_count)

    def speak_as(self, system: int) -> None:
        """Send as the computer of this system from now on."""
        self._codec.srcSystem = system

    def send(self, message: Any) -> None:
        """Send a message; a connection that fails counts and is tried again with the next one."""
        with self._lock:
            data = message.pack(self._codec)
            self._codec.seq = (self._codec.seq + 1) % 256
            try:
                self._transport.send(bytes(data))
            except OSError as error:
                self._failed(error)

    def receive(self, timeout_s: float) -> list[Any]:
        """Return the messages that have come, waiting for up to ``timeout_s`` for the first."""
        try:
            data = self._transport.receive(timeout_s)
        except OSError as error:
            self._failed(error)
            time.sleep(timeout_s)
            return []
        if not data:
            return []
        if messages := self._framing.feed(data):
            self._transport.heard()
        return messages

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._transport.close()

    def _failed(self, error: OSError) -> None:
        self.unsent += 1
        if str(error) != self.error:
            self.error = str(error)
            _LOG.warning("The MAVLink link fails: %s.", error)
