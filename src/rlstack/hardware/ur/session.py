"""A client of Universal Robots' Real-Time Data Exchange: it agrees on the fields, and then exchanges them."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.ur.rtde import CONTROLLER, DATA, INPUTS, OUTPUTS, START, TEXT, VERSION, Packages, Recipe, package

_ANSWER_S = 2.0
PROTOCOL = 2


def connected(host: str, port: int, what: str) -> socket.socket:
    """Return a connection.

    Raises:
        UserError: Nobody is there.
    """
    try:
        made = socket.create_connection((host, port), _ANSWER_S)
    except OSError as error:
        raise UserError(
            f"{what} at {host}:{port} cannot be reached ({error}): check address, cable and whether the robot's"
            " controller is on, and in its settings under Security > Services that the interface is enabled."
        ) from error
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class RtdeSession:
    """One connection.

    Args:
        host: The controller's address.
        port: Its port, usually 30004.
        rate_hz: How often it is to send ``outputs``.
        outputs: Fields that it sends.
        inputs: Fields that this side sends.

    Raises:
        UserError: It is not there, or does not have the protocol or a field.
        LinkLost: What it answers is malformed.
    """

    def __init__(self, host: str, port: int, rate_hz: float, outputs: Sequence[str], inputs: Sequence[str]) -> None:
        self._socket = connected(host, port, "RTDE")
        self._where = f"The controller at {host}:{port}"
        self._packages = Packages()
        self._waiting: list[tuple[int, bytes]] = []
        self.told = ""
        """The last message of the controller in words."""
        try:
            if self._ask(VERSION, struct.pack(">H", PROTOCOL)) != b"\x01":
                raise UserError(f"{self._where} does not speak version {PROTOCOL} of RTDE: update its software.")
            self.version: tuple[int, ...] = struct.unpack(">4I", self._ask(CONTROLLER))
            """Of the controller's software: major, minor, bug fix, build."""
            wanted = struct.pack(">d", rate_hz) + ",".join(outputs).encode()
            self._outputs = self._recipe(OUTPUTS, outputs, wanted)
            self._inputs = self._recipe(INPUTS, inputs, ",".join(inputs).encode())
            if self._ask(START) != b"\x01":
                raise UserError(f"{self._where} does not start RTDE. {self.told}".strip())
            self._socket.setblocking(False)
        except (UserError, LinkLost):
            self.close()
            raise

    def latest(self, wait_s: float) -> dict[str, Any] | None:
        """Return the newest data package's fields; None if none came within a time.

        Raises:
            LinkLost: The connection is gone, or what came is malformed.
        """
        if not self._waiting and select.select([self._socket], [], [], wait_s)[0]:
            self._receive()
        found = None
        came, self._waiting = self._waiting, []
        for kind, carried in came:
            if kind == DATA:
                found = carried
            elif kind == TEXT:
                self._note(carried)
        return None if found is None else self._outputs.decode(found)

    def send(self, fields: Mapping[str, float]) -> None:
        """Send the inputs.

        Raises:
            LinkLost: The connection is gone, or takes nothing any more.
        """
        self._write(self._inputs.encode(fields))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _recipe(self, kind: int, names: Sequence[str], wanted: bytes) -> Recipe:
        try:
            return Recipe(names, self._ask(kind, wanted))
        except ValueError as error:
            raise UserError(
                f"{self._where} {error}: end the other client (fieldbus or RTDE), or update its software."
            ) from error

    def _ask(self, kind: int, carried: bytes = b"") -> bytes:
        self._write(package(kind, carried))
        end = time.monotonic() + _ANSWER_S
        while time.monotonic() < end:
            if not self._waiting and select.select([self._socket], [], [], 0.05)[0]:
                self._receive()
            while self._waiting:
                came, answer = self._waiting.pop(0)
                if came == kind:
                    return answer
                if came == TEXT:
                    self._note(answer)
        raise UserError(f"{self._where} does not answer in RTDE's protocol within {_ANSWER_S:g} s: is the port right?")

    def _receive(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkLost(str(error)) from error
        if not data:
            raise LinkLost("the controller has closed the connection")
        self._waiting += self._packages.feed(data)

    def _write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise LinkLost(str(error)) from error

    def _note(self, carried: bytes) -> None:
        self.told = carried[1 : 1 + carried[0]].decode("utf-8", "replace") if carried else ""
