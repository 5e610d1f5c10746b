"""A bus of servos on a serial port: registers of many servos at once, and the checks before anything moves.

Framing and checksums are the maker's library's; this adds what it lacks: timeouts of a few milliseconds without a busy
loop, one user of a port at a time, and answers that count only if they are whole and from whoever was asked.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rlstack.errors import UserError
from rlstack.hardware.serial_port import LinkLost, lost_if_gone, why_not_open
from rlstack.hardware.servos.kinds import BusKind, Register
from rlstack.libraries import import_library

Kind = TypeVar("Kind", bound=BusKind)

_WAIT_S = 0.002
"""How long one read of the port may wait for bytes."""
_FIND_S = 1.0
"""How long a servo is polled before it counts as missing: one that was just powered takes a while to answer."""
_CLASH_S = 0.03
"""How long a second answer to one question is waited for."""
_QUIET_S = (0.05, 0.1, 0.3)
"""How long late answers may trickle in, time after time: two servos with one number answer twice each time."""
_TRIES = 5


@dataclass(frozen=True)
class Answer:
    """A servo's answer: its error byte and the registers that were asked for."""

    error: int
    data: tuple[int, ...]

    def count(self, register: Register, start: int) -> int:
        """Return the count of a register within a block that starts at the address ``start``."""
        first = register.address - start
        return register.decode(self.data[first : first + register.size])


class ServoBus(Generic[Kind]):
    """One bus. Not for several threads at once.

    Args:
        kind: Its servos.
        port: The serial port, such as /dev/ttyACM0.
        baud: Its rate.
        servos: Names of joints by the servo's number, for messages.
        answer_s: How long an answer may take beside its time on the wire: the adapter's latency, and the servo's own.
    """

    def __init__(self, kind: Kind, port: str, baud: int, servos: Mapping[int, str], answer_s: float = 0.008) -> None:
        self.kind, self.port_name, self.servos = kind, port, dict(servos)
        self._baud, self._answer_s = baud, answer_s
        self._port: Any = None
        self._packets: Any = None
        self._settings: dict[int, Answer] = {}
        self._open_question: tuple[int, int] | None = None
        """The last block that was asked for, if not everybody answered in time."""
        self.latencies_s: deque[float] = deque(maxlen=1000)
        """Times of the last complete readings of all servos, from the question to the last answer, s."""

    def open(self) -> None:
        """Open the port.

        Raises:
            UserError: The library is missing, or the port is missing, in use or cannot run at the rate.
        """
        sdk = import_library(self.kind.library, self.kind.extra)
        port = _port_class(sdk)(self.port_name, self._answer_s)
        try:
            opened = port.setBaudRate(self._baud)  # opens it
        except Exception as error:  # errors of pyserial and of the system
            raise why_not_open(self.port_name, error) from error
        if not opened:
            raise UserError(
                f"{self.port_name} cannot run at {self._baud} baud: {self.kind.name} servos come with {self.kind.baud}."
            )
        self._port, self._packets = port, self.kind.packets(sdk)

    def require_open(self) -> None:
        """Raise ``LinkLost`` if the port is closed, as after it was pulled out."""
        if self._port is None:
            raise LinkLost(f"{self.port_name} is closed")

    def close(self) -> None:
        """Close the port; a second call does nothing."""
        port, self._port = self._port, None
        if port is not None and port.is_open:
            try:
                port.closePort()
            except OSError:  # the adapter was pulled out
                port.is_open = False

    def read(self, register: Register | tuple[int, int], ids: Sequence[int] = ()) -> dict[int, Answer]:
        """Read a register, or a block (address, size), of several servos at once; those that are silent are left out.

        Raises:
            LinkLost: The port is gone.
        """
        block = register if isinstance(register, tuple) else (register.address, register.size)
        asked = list(ids or self.servos)
        start = time.perf_counter()
        found = {one: answers[0] for one, answers in self._ask(block, asked).items()}
        if len(found) == len(self.servos):
            self.latencies_s.append(time.perf_counter() - start)
        return found

    def write(self, register: Register, counts: Mapping[int, int]) -> None:
        """Write a register of several servos at once; none confirms it.

        Raises:
            LinkLost: The port is gone.
        """
        data = [byte for one, count in counts.items() for byte in (one, *register.encode(count))]
        self._port.is_using = False
        with lost_if_gone():
            self._packets.tell(self._port, (register.address, register.size), data)

    def put(self, one: int, address: int, data: bytes) -> bool:
        """Write registers of one device; return whether it has confirmed them.

        Raises:
            LinkLost: The port is gone.
        """
        self._port.is_using = False
        with lost_if_gone():
            return bool(self._packets.tell_one(self._port, one, address, data))

    def set(self, register: Register, counts: Mapping[int, int]) -> None:
        """Write a register of several servos until they confirm it by what they read.

        Raises:
            UserError: A servo keeps another value; both are named.
            LinkLost: The port is gone.
        """
        wrong: dict[int, int | None] = {}
        for _ in range(_TRIES):
            self.write(register, counts)
            found = self.read(register, list(counts))
            wrong = {
                one: register.decode(found[one].data) if one in found else None
                for one, count in counts.items()
                if one not in found or register.decode(found[one].data) != count
            }
            if not wrong:
                return
        one, kept = next(iter(wrong.items()))
        said = "does not answer any more" if kept is None else f"keeps {kept}"
        raise UserError(f"{self.servo(one)}: register {register.address} was set to {counts[one]}, and it {said}.")

    def put_surely(self, one: int, register: Register, count: int) -> None:
        """Write a register of one device until it confirms it.

        Raises:
            UserError: It does not.
            LinkLost: The port is gone.
        """
        for _ in range(_TRIES):
            if self.put(one, register.address, bytes(register.encode(count))):
                return
        raise UserError(
            f"{self.servo(one)}: register {register.address} was set to {count}, and it does not confirm it."
        )

    def find(self) -> None:
        """Find every servo, once each, of a model whose registers are known.

        Raises:
            UserError: One does not answer, two have one number, or one is of another model.
            LinkLost: The port is gone.
        """
        for one in self.servos:
            answers, until = self._twice(one), time.monotonic() + _FIND_S
            while not answers:
                if time.monotonic() > until:
                    raise UserError(
                        f"{self.servo(one)} does not answer on {self.port_name}: check its power, cable and number."
                    )
                answers = self._twice(one)
            for quiet_s in _QUIET_S:  # unless they were late, and answered earlier questions
                if len(answers) > 1:
                    time.sleep(quiet_s)
                    answers = self._twice(one, 2.0 * _CLASH_S) or answers
            if len(answers) > 1:
                raise UserError(
                    f"{self.servo(one)}: {len(answers)} servos answer to the number {one} on {self.port_name}: give"
                    " each one of its own."
                )
            self._settings[one] = answers[0]
        for one, number in self.setting(self.kind.model).items():
            if number not in self.kind.models:
                known = ", ".join(f"{name} ({count})" for count, name in self.kind.models.items())
                raise UserError(f"{self.servo(one)} has the model number {number}, and must be one of {known}.")
        oldest, newest = self.kind.firmwares
        for one, version in self.setting(self.kind.firmware).items():
            if not oldest <= version <= newest:
                wanted = str(oldest) if oldest == newest else f"from {oldest} on"
                raise UserError(
                    f"{self.servo(one)} has the firmware {version}, and the registers are known of {wanted}: update it"
                    " by its maker's program."
                )

    def setting(self, register: Register) -> dict[int, int]:
        """Return a register of every servo, of the block ``settings`` as :meth:`find` has read it."""
        return {one: answer.count(register, self.kind.settings[0]) for one, answer in self._settings.items()}

    def servo(self, one: int) -> str:
        """Return a servo's name for messages."""
        return f"Servo {one} ({self.servos[one]})"

    def _twice(self, one: int, linger_s: float = _CLASH_S) -> list[Answer]:
        """Return every answer to one servo's number: two, if two have it and their packets did not collide."""
        return self._ask(self.kind.settings, [one], linger_s=linger_s).get(one, [])

    def _ask(self, block: tuple[int, int], ids: list[int], linger_s: float = 0.0) -> dict[int, list[Answer]]:
        port, packets = self._port, self._packets
        found: dict[int, list[Answer]] = {}
        with lost_if_gone():
            port.is_using = False  # an earlier packet may have failed on the way
            if self._open_question not in (None, block):
                time.sleep(self._answer_s)  # a late answer to that would be taken for one to this
            self._open_question = block
            if packets.ask(port, block, ids) != packets.good:
                return found
            while len(found) < len(ids) or linger_s:
                result, one, error, data = packets.answer(port)
                if result == packets.good and one in ids and len(data) == block[1]:
                    if linger_s and not found:
                        port.shorten(linger_s)
                    found.setdefault(one, []).append(Answer(error, tuple(data)))
                elif port.is_over():
                    break
        if len(found) == len(ids):
            self._open_question = None
        return found


def _port_class(sdk: Any) -> Any:
    """Return the library's port with an end to every wait, and without a busy loop."""
    serial = import_library("serial", "serial")

    class Port(sdk.PortHandler):  # type: ignore[misc]
        def __init__(self, name: str, answer_s: float) -> None:
            super().__init__(name)
            self._answer_s, self._until = answer_s, 0.0

        def setupPort(self, cflag_baud: int) -> bool:
            self.ser = serial.Serial(self.port_name, self.baudrate, timeout=_WAIT_S, write_timeout=0.5, exclusive=True)
            self.is_open = True
            self.ser.reset_input_buffer()
            self.tx_time_per_byte = 1e4 / self.baudrate
            return True

        def clearPort(self) -> None:
            self.ser.reset_input_buffer()  # what came late answers an earlier question

        def readPort(self, length: int) -> bytes:
            return b"" if self.is_over() else bytes(self.ser.read(max(length, 0)))

        def setPacketTimeout(self, packet_length: int) -> None:
            self.shorten(1e-3 * self.tx_time_per_byte * packet_length + self._answer_s)

        def isPacketTimeout(self) -> bool:
            return self.is_over()

        def shorten(self, seconds: float) -> None:
            self._until = time.monotonic() + seconds

        def is_over(self) -> bool:
            return time.monotonic() > self._until

    return Port
