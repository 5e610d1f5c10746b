"""A session with one autopilot: finds it, asks it, keeps clock and heartbeat, and hands on its messages."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from rlstack.errors import UserError
from rlstack.hardware.mavlink.autopilots import AUTOPILOTS, Autopilot
from rlstack.hardware.mavlink.clock import RemoteClock
from rlstack.hardware.mavlink.link import ONBOARD_COMPUTER, Link

QUADROTOR = 2
"""``MAV_TYPE_QUADROTOR``."""
AUTOPILOT_COMPONENT = 1
SET_MESSAGE_INTERVAL, REQUEST_MESSAGE = 511, 512
AUTOPILOT_VERSION = 148
_ONBOARD_CONTROLLER, _NO_AUTOPILOT, _ACTIVE = 18, 8, 4
_SAFETY_ARMED = 128
_FLOATS = (9, 10)
"""``MAV_PARAM_TYPE_REAL32`` and ``REAL64``."""

HEARTBEAT_S, TIMESYNC_S = 1.0, 0.2
RESEND_S = 0.2

_LOG = logging.getLogger(__name__)


class Session:
    """One autopilot on a link; a thread receives from :meth:`start` on.

    Args:
        link: The link, which it closes.
        where: The URI, for messages.
        system: The autopilot's system number; 0: the only one there.
        on_message: Called in the thread with each of the autopilot's messages and its arrival, monotonic ns.
        on_tick: Called in the thread every few milliseconds.
    """

    def __init__(
        self,
        link: Link,
        where: str,
        system: int,
        on_message: Callable[[Any, int], None],
        on_tick: Callable[[], None],
    ) -> None:
        self.link, self._where, self.system = link, where, system
        self._on_message, self._on_tick = on_message, on_tick
        self._mavlink = link.dialect
        self.clock = RemoteClock()
        self._heartbeat: Any = None
        self._others: set[int] = set()
        self._parameters: dict[str, float] = {}
        self._version: Any = None
        self._acks: dict[int, int] = {}
        self._integers = "cast"
        self.failures = 0
        """Messages whose handling raised an error: a fault of this driver."""
        self._beat_s = self._sync_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mavlink", daemon=True)

    # Questions, from the caller's thread -----------------------------------------------------------------------

    def start(self, timeout_s: float) -> Autopilot:
        """Begin to receive, and return the rules of the autopilot that answers.

        Raises:
            UserError: None does, several do, or it is none that this driver knows, or no quadrotor.
        """
        self._thread.start()
        if not self._soon(lambda: self._heartbeat is not None, timeout_s):
            heard = f", only system {', '.join(map(str, sorted(self._others)))}" if self._others else ""
            raise UserError(
                f"No autopilot{f' of system {self.system}' if self.system else ''} is heard on {self._where}{heard}:"
                " is it powered, and does it send MAVLink there (its address, port and baud rate)?"
            )
        self.check_alone()
        beat = self._heartbeat
        if beat.autopilot not in AUTOPILOTS:
            known = " or ".join(autopilot.name for autopilot in AUTOPILOTS.values())
            raise UserError(f"System {self.system} on {self._where} is autopilot type {beat.autopilot}, not {known}.")
        if beat.type != QUADROTOR:
            raise UserError(
                f"System {self.system} on {self._where} says that it is a vehicle of type {beat.type}, but the robot"
                f" file is a quadrotor's (type {QUADROTOR})."
            )
        found = AUTOPILOTS[beat.autopilot]
        self._integers = found.integers
        self.link.speak_as(self.system)
        return found

    def check_alone(self) -> None:
        """Raise ``UserError`` if a second autopilot has been heard and none was chosen."""
        if self._others and self._chosen_by_chance:
            several = ", ".join(map(str, sorted({self.system, *self._others})))
            raise UserError(f"Several autopilots are heard on {self._where}, systems {several}: choose one by system=.")

    def version(self, autopilot: Autopilot, timeout_s: float) -> str:
        """Return the firmware's version.

        Raises:
            UserError: It does not tell, or is too old.
        """
        ask = lambda: self.command(REQUEST_MESSAGE, (float(AUTOPILOT_VERSION),))  # noqa: E731
        if not self._soon(lambda: self._version is not None, timeout_s, ask):
            raise UserError(f"{autopilot.name} on {self._where} does not tell its version: it is too old.")
        packed = self._version.flight_sw_version
        major, minor, patch = packed >> 24 & 0xFF, packed >> 16 & 0xFF, packed >> 8 & 0xFF
        if (major, minor) < autopilot.oldest:
            oldest = ".".join(map(str, autopilot.oldest))
            raise UserError(
                f"{autopilot.name} on {self._where} is version {major}.{minor}.{patch}; this driver needs {oldest} or"
                " newer."
            )
        return f"{major}.{minor}.{patch}"

    def parameters(self, names: tuple[str, ...], timeout_s: float) -> dict[str, float]:
        """Return parameters by name.

        Raises:
            UserError: The autopilot does not have one, or does not answer.
        """

        def ask() -> None:
            for name in names:
                if name not in self._parameters:
                    request = self._mavlink.MAVLink_param_request_read_message
                    self.link.send(request(self.system, AUTOPILOT_COMPONENT, name.encode(), -1))

        if not self._soon(lambda: set(names) <= set(self._parameters), timeout_s, ask):
            missing = ", ".join(name for name in names if name not in self._parameters)
            raise UserError(f"The autopilot on {self._where} does not tell its parameters {missing}.")
        return {name: self._parameters[name] for name in names}

    def synchronise(self, timeout_s: float) -> None:
        """Learn the autopilot's clock.

        Raises:
            UserError: It does not answer TIMESYNC.
        """
        if not self._soon(lambda: self.clock.known, timeout_s, self._ask_time, 0.02):
            raise UserError(f"The autopilot on {self._where} does not answer TIMESYNC, so its stamps mean nothing.")

    def stream(self, rates_hz: dict[int, float], timeout_s: float, optional: tuple[int, ...] = ()) -> None:
        """Ask for messages at these rates.

        Args:
            rates_hz: By the message's number.
            timeout_s: For all of them.
            optional: Messages that may stay at their own rate.

        Raises:
            UserError: It does not agree.
        """
        left = dict(rates_hz)

        def ask() -> None:
            for number, rate in left.items():
                self._acks.pop(SET_MESSAGE_INTERVAL, None)
                self.command(SET_MESSAGE_INTERVAL, (float(number), 1e6 / rate))
                if self._soon(lambda: SET_MESSAGE_INTERVAL in self._acks, RESEND_S):
                    if self._acks[SET_MESSAGE_INTERVAL] != 0 and number not in optional:
                        refused.append(number)
                    del left[number]
                return

        refused: list[int] = []
        self._soon(lambda: not left, timeout_s, ask, 0.0)
        if unanswered := [number for number in (*left, *refused) if number not in optional]:
            numbers = ", ".join(map(str, unanswered))
            raise UserError(f"The autopilot on {self._where} does not agree to send the messages {numbers}.")

    def wait(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Wait until a condition holds; return whether it does."""
        return self._soon(condition, timeout_s)

    def command(self, number: int, parameters: tuple[float, ...], tries: int = 0) -> None:
        """Send a command, whose answer comes as a message."""
        seven = (*parameters, *(0.0,) * (7 - len(parameters)))
        self.link.send(
            self._mavlink.MAVLink_command_long_message(
                self.system, AUTOPILOT_COMPONENT, number, min(tries, 255), *seven
            )
        )

    def close(self) -> None:
        """End the thread and the link."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2.0)
        self.link.close()

    def _soon(
        self,
        condition: Callable[[], object],
        timeout_s: float,
        ask: Callable[[], None] | None = None,
        every_s: float = RESEND_S,
    ) -> bool:
        end, next_s = time.monotonic() + timeout_s, 0.0
        while not condition():
            now = time.monotonic()
            if now > end or self._stop.is_set():
                return False
            if ask is not None and now >= next_s:
                ask()
                next_s = now + every_s
            time.sleep(0.001)
        return True

    # In the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                messages = self.link.receive(0.005)
                arrived = time.monotonic_ns()
                for message in messages:
                    self._receive(message, arrived)
                self._keep(arrived / 1e9)
                self._on_tick()
            except Exception:  # the thread must go on: without it nobody hears the autopilot
                self.failures += 1
                if self.failures == 1:
                    _LOG.exception("A MAVLink message could not be handled; more of this kind are counted")

    def _keep(self, now: float) -> None:
        if now - self._beat_s >= HEARTBEAT_S:
            self._beat_s = now
            beat = self._mavlink.MAVLink_heartbeat_message
            self.link.send(beat(_ONBOARD_CONTROLLER, _NO_AUTOPILOT, 0, 0, _ACTIVE, 3))
        if self._heartbeat is not None and now - self._sync_s >= TIMESYNC_S:
            self._sync_s = now
            self._ask_time()

    def _ask_time(self) -> None:
        self.link.send(self._mavlink.MAVLink_timesync_message(0, time.monotonic_ns()))

    _chosen_by_chance = False

    def _receive(self, message: Any, arrived_ns: int) -> None:
        system, kind = message.get_srcSystem(), message.get_type()
        if message.get_srcComponent() != AUTOPILOT_COMPONENT:
            return
        if kind == "HEARTBEAT" and message.autopilot != _NO_AUTOPILOT:
            if not self.system:
                self.system, self._chosen_by_chance = system, True
            if system != self.system:
                self._others.add(system)
        if system != self.system:
            return
        if kind == "HEARTBEAT":
            self._heartbeat = message
        elif kind == "TIMESYNC":
            self._on_timesync(message, arrived_ns)
        elif kind == "PARAM_VALUE":
            self._on_parameter(message)
        elif kind == "AUTOPILOT_VERSION":
            self._version = message
        elif kind == "COMMAND_ACK":
            if message.target_system not in (0, self.system) or message.target_component not in (0, ONBOARD_COMPUTER):
                return  # an answer to somebody else, such as a ground station
            self._acks[message.command] = message.result
        self._on_message(message, arrived_ns)

    def _on_timesync(self, message: Any, arrived_ns: int) -> None:
        if message.tc1 == 0:  # a question
            self.link.send(self._mavlink.MAVLink_timesync_message(time.monotonic_ns(), message.ts1))
        else:
            self.clock.answered(message.ts1, message.tc1, arrived_ns)

    def _on_parameter(self, message: Any) -> None:
        name = message.param_id if isinstance(message.param_id, str) else message.param_id.decode("ascii", "replace")
        value = float(message.param_value)
        if message.param_type not in _FLOATS and self._integers == "bytes":
            value = float(_as_integer(message.param_value))
        self._parameters[name.rstrip("\0")] = value


def is_armed(heartbeat: Any) -> bool:
    """Return whether a heartbeat says that its vehicle is armed."""
    return bool(heartbeat.base_mode & _SAFETY_ARMED)


def _as_integer(value: float) -> int:
    """Return the whole number whose bytes are those of a float."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])
