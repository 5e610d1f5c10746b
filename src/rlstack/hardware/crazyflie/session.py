"""A session with one Crazyflie: asks it questions, keeps log blocks running, and hands on what it measures."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.hardware.crazyflie.clock import LogClock
from rlstack.hardware.crazyflie.links import CrazyflieLink, Packet
from rlstack.hardware.crazyflie.toc import (
    LOG_TYPES,
    PARAMETER_TYPES,
    Entry,
    TableError,
    TableStore,
    parse_entry,
    parse_summary,
)

PARAMETER, COMMANDER, LOG, LOCALIZATION, GENERIC_COMMANDER, SUPERVISOR, PLATFORM, LINK = 2, 3, 5, 6, 7, 9, 13, 15
HIGH_LEVEL_COMMANDER = 8
"""Ports."""
_TOC, _SETTINGS, _DATA = 0, 1, 2
_ITEM, _SUMMARY = 2, 3
_CREATE, _START, _RESET = 6, 3, 5
_EXISTS = 17
OLDEST_PROTOCOL = 4
"""First protocol version with tables of more than 255 entries."""
RESEND_S, TRIES = 0.1, 12
AHEAD = 8
"""Questions for a table's entries that are under way at once."""
PING_S = 0.2

_LOGGER = logging.getLogger(__name__)


class Block:
    """A log block: variables that are measured together, and sent at one period.

    Args:
        number: Its number, 0 to 15.
        names: Names of the variables.
        period_s: Period, whole hundredths of a second.
        on_values: Called in the session's thread with the Crazyflie's time, s, when they arrived, monotonic s, and the
            values.
    """

    def __init__(
        self,
        number: int,
        names: Sequence[str],
        period_s: float,
        on_values: Callable[[float, float, tuple[float, ...]], None],
    ) -> None:
        self.number, self.names, self.on_values = number, tuple(names), on_values
        self.ticks = round(100 * period_s)
        self.layout = struct.Struct("<")


class Session:
    """One Crazyflie on a link; a thread receives from :meth:`start` on.

    Args:
        link: The link, which it closes.
        where: The URI, for messages.
        on_tick: Called in the thread every few milliseconds.
        store: Tables on disk.
    """

    def __init__(
        self, link: CrazyflieLink, where: str, on_tick: Callable[[], None], store: TableStore | None = None
    ) -> None:
        self.link, self._where, self._on_tick = link, where, on_tick
        self._store = store or TableStore()
        self.clock = LogClock()
        self.protocol = 0
        self.firmware = ""
        self.refused: dict[str, int] = {}
        """Packets that were refused, by reason."""
        self.failures = 0
        """Packets whose handling raised an error: a fault of this driver."""
        self._blocks: dict[int, Block] = {}
        self._parameters: dict[str, Entry] = {}
        self._waiting: list[tuple[Callable[[Packet], bool], list[Packet]]] = []
        self._lock = threading.Lock()
        self._ping_s, self._pinged_ns = 0.0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crazyflie", daemon=True)

    def start(self, timeout_s: float) -> None:
        """Begin to receive, and learn the versions.

        Raises:
            UserError: Nobody answers, it is no Crazyflie, or its firmware is too old.
        """
        self._thread.start()
        end = time.monotonic() + timeout_s
        name = self._ask(LINK, 1, b"\0", lambda p: p.port == LINK and p.channel == 1, end)
        if name is None:
            raise UserError(
                f"No Crazyflie answers on {self._where}: is it on, are channel, rate and address its own, and does no"
                " other program speak to it?"
            )
        if not name.data.startswith(b"Bitcraze Crazyflie"):
            raise UserError(f"What answers on {self._where} is no Crazyflie: {name.data[:20]!r}.")
        version = self._ask(PLATFORM, 1, b"\0", lambda p: p.port == PLATFORM and p.data[:1] == b"\0", end)
        self.protocol = version.data[1] if version is not None and len(version.data) > 1 else 0
        if self.protocol < OLDEST_PROTOCOL:
            raise UserError(
                f"The Crazyflie on {self._where} speaks protocol {self.protocol}; this driver needs"
                f" {OLDEST_PROTOCOL} or newer: update its firmware."
            )
        answer = self._ask(PLATFORM, 1, b"\1", lambda p: p.port == PLATFORM and p.data[:1] == b"\1", end)
        self.firmware = answer.data[1:].split(b"\0")[0].decode("latin-1") if answer is not None else "unknown"
        self._parameters = self._table(PARAMETER, "parameters")

    def read_parameter(self, name: str) -> float:
        """Return a parameter's value.

        Raises:
            UserError: It has none, or does not answer.
        """
        entry = self._known(self._parameters, name, "parameter")
        number = struct.pack("<H", entry.number)
        layout = struct.Struct("<" + PARAMETER_TYPES[entry.kind])
        answer = self._ask(
            PARAMETER, 1, number, lambda p: (p.port, p.channel) == (PARAMETER, 1) and p.data[:2] == number
        )
        if answer is None or len(answer.data) < 3 + layout.size:
            raise UserError(f"The Crazyflie on {self._where} does not tell its parameter {name}.")
        return float(layout.unpack_from(answer.data, 3)[0])

    def set_parameter(self, name: str, value: int) -> None:
        """Set a parameter, and read it back.

        Raises:
            UserError: It has none, or does not take the value.
        """
        entry = self._known(self._parameters, name, "parameter")
        number = struct.pack("<H", entry.number)
        data = number + struct.pack("<" + PARAMETER_TYPES[entry.kind], value)
        self._ask(PARAMETER, 2, data, lambda p: (p.port, p.channel) == (PARAMETER, 2) and p.data[:2] == number)
        if (now := self.read_parameter(name)) != value:
            raise UserError(f"The Crazyflie on {self._where} has {name} = {now:g} and does not take {value}.")

    def log(self, blocks: Sequence[Block]) -> None:
        """Start log blocks, in place of all that ran.

        Raises:
            UserError: A variable is missing, or the Crazyflie refuses a block.
        """
        known = self._table(LOG, "log variables")
        self._settings(bytes([_RESET]), "the reset of its log")
        for block in blocks:
            entries = [self._known(known, name, "log variable") for name in block.names]
            block.layout = struct.Struct("<" + "".join(LOG_TYPES[entry.kind] for entry in entries))
            variables = b"".join(struct.pack("<BH", entry.kind, entry.number) for entry in entries)
            self._blocks[block.number] = block
            head = bytes([_CREATE, block.number])
            self._settings(head + variables[:27], f"a log block of {', '.join(block.names)}", (0, _EXISTS))
            if variables[27:]:
                self._settings(bytes([7, block.number]) + variables[27:], "more log variables")
            self._settings(bytes([_START, block.number, block.ticks]), "the start of its log")

    def send(self, port: int, channel: int, data: bytes) -> None:
        """Send a packet; a link that fails counts."""
        try:
            self.link.send(port, channel, data)
        except OSError as error:
            self._count(f"not sent: {error}")

    def wait(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Wait until a condition holds; return whether it does."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    def close(self) -> None:
        """End the thread and the link."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2.0)
        self.link.close()

    # Questions -------------------------------------------------------------------------------------------------

    def _ask(
        self,
        port: int,
        channel: int,
        data: bytes,
        matches: Callable[[Packet], bool],
        end: float | None = None,
    ) -> Packet | None:
        """Return the answer to a packet, which is sent again until it comes; None: it does not."""
        answers: list[Packet] = []
        entry = (matches, answers)
        with self._lock:
            self._waiting.append(entry)
        try:
            for _ in range(TRIES):
                self.send(port, channel, data)
                if self.wait(lambda: answers, RESEND_S):
                    return answers[0]
                if end is not None and time.monotonic() > end:
                    break
            return None
        finally:
            with self._lock:
                self._waiting.remove(entry)

    def _settings(self, data: bytes, what: str, good: tuple[int, ...] = (0,)) -> None:
        def matches(p: Packet) -> bool:
            return (
                (p.port, p.channel) == (LOG, _SETTINGS) and p.data[:1] == data[:1] and p.data[1:2] in (data[1:2], b"\0")
            )

        answer = self._ask(LOG, _SETTINGS, data, matches)
        if answer is None or len(answer.data) < 3 or answer.data[2] not in good:
            code = "no answer" if answer is None or len(answer.data) < 3 else f"error {answer.data[2]}"
            raise UserError(f"The Crazyflie on {self._where} refuses {what} ({code}).")

    def _known(self, table: dict[str, Entry], name: str, what: str) -> Entry:
        if name not in table:
            raise UserError(
                f"The firmware {self.firmware} of the Crazyflie on {self._where} has no {what} {name}: update it."
            )
        return table[name]

    def _table(self, port: int, what: str) -> dict[str, Entry]:
        answer = self._ask(port, _TOC, bytes([_SUMMARY]), lambda p: (p.port, p.channel, p.data[:1]) == (port, 0, b"\3"))
        try:
            count, checksum = parse_summary(answer.data if answer is not None else b"")
        except TableError as error:
            raise UserError(f"The Crazyflie on {self._where} does not list its {what} ({error}).") from error
        if (table := self._store.load(port, checksum, count)) is not None:
            return table
        found: dict[int, tuple[str, Entry]] = {}

        def take(packet: Packet) -> bool:
            if (packet.port, packet.channel, packet.data[:1]) == (port, _TOC, bytes([_ITEM])):
                try:
                    number, name, entry = parse_entry(packet.data)
                except TableError as error:
                    self._count(str(error))
                    return False
                found[number] = name, entry
            return False

        waiting: tuple[Callable[[Packet], bool], list[Packet]] = (take, [])
        with self._lock:
            self._waiting.append(waiting)
        try:
            silent = 0
            while len(found) < count and silent < TRIES:
                missing = [number for number in range(count) if number not in found][:AHEAD]
                for number in missing:
                    self.send(port, _TOC, struct.pack("<BH", _ITEM, number))
                got = self.wait(lambda missing=missing: all(n in found for n in missing), RESEND_S)  # type: ignore[misc]
                silent = 0 if got else silent + 1
        finally:
            with self._lock:
                self._waiting.remove(waiting)
        if len(found) < count:
            raise UserError(f"The Crazyflie on {self._where} told {len(found)} of its {count} {what}: a bad link?")
        table = dict(found[number] for number in sorted(found))
        self._store.save(port, checksum, table)
        return table

    # In the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                packets = self.link.receive(0.005)
                arrived = time.monotonic()
                for packet in packets:
                    self._receive(packet, arrived)
                if arrived - self._ping_s > PING_S:
                    self._ping_s, self._pinged_ns = arrived, time.monotonic_ns()
                    self.send(LINK, 0, struct.pack("<Q", self._pinged_ns))
                self._on_tick()
            except Exception:  # the thread must go on: without it nobody hears the Crazyflie
                self.failures += 1
                if self.failures == 1:
                    _LOGGER.exception("A packet of the Crazyflie could not be handled; more of this kind are counted")
                time.sleep(0.001)

    def _receive(self, packet: Packet, arrived: float) -> None:
        if (packet.port, packet.channel) == (LOG, _DATA):
            self._on_log(packet.data, arrived)
            return
        if (packet.port, packet.channel) == (LINK, 0):
            if packet.data == struct.pack("<Q", self._pinged_ns):
                self.clock.pinged(arrived - self._pinged_ns / 1e9)
            return
        with self._lock:
            waiting = list(self._waiting)
        for matches, answers in waiting:
            if matches(packet):
                answers.append(packet)

    def _on_log(self, data: bytes, arrived: float) -> None:
        block = self._blocks.get(data[0]) if data else None
        if block is None or len(data) != 4 + block.layout.size:
            self._count("log data of another size or block")
            return
        stamp = self.clock.unwrapped(int.from_bytes(data[1:4], "little"), arrived)
        block.on_values(stamp, arrived, block.layout.unpack_from(data, 4))

    def _count(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1


def describe(bits: int, names: Any) -> str:
    """Return the names of the bits that are set."""
    return ", ".join(name for k, name in enumerate(names) if bits >> k & 1) or "nothing"
