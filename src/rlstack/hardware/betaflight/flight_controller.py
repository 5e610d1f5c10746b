"""The link to a flight controller: one thread asks for measurements and keeps its receiver alive while disarmed."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.betaflight import msp
from rlstack.hardware.betaflight.transport import Transport

_ANSWER_S = 0.5
_LEAST_ANSWERS_HZ = 200.0
"""Channels and measurements at 100 Hz each, and the status; the firmware's default allows 100."""
_TRIED, _TRIALS = 10, 5
_IN_FLIGHT_S = 0.1
"""How long a request may be unanswered before it counts as lost."""
_PATIENCE_S = 0.005
_PERIODS_S = {msp.RAW_IMU: 0.005, msp.STATUS_EX: 0.02, msp.ATTITUDE: 0.05, msp.BATTERY_STATE: 0.5}
_KEEP_ALIVE_S = 0.02
"""Period of disarmed channels: a receiver is lost after 150 ms."""
_LOG = logging.getLogger(__name__)


class Imu(NamedTuple):
    """Accelerometer and gyroscope."""

    time_s: float
    """Arrival, s since the epoch."""
    acceleration: Array
    """(3,), in the accelerometer's own unit, FLU."""
    angular_velocity: Array
    """(3,) rad/s, FLU."""


class Status(NamedTuple):
    """State of the flight controller."""

    time_s: float
    """Arrival, s since the epoch."""
    flags: int
    """Active modes: bit i is the i-th of its list of modes."""
    arming: int
    """What hinders arming, :func:`rlstack.hardware.betaflight.arming.reasons`."""


class Battery(NamedTuple):
    """Battery; without cells there is none."""

    cells: int
    voltage_v: float
    current_a: float
    """Drawn."""


class FlightController:
    """Speaks MSP over a connection, which it closes.

    Args:
        transport: The connection.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport, self._framing = transport, msp.Framing()
        self.imu: Imu | None = None
        self.status: Status | None = None
        self.battery: Battery | None = None
        self.attitude: tuple[float, float] | None = None
        """Roll and pitch, rad: roll to the right, and pitch with the nose down, are positive."""
        self._asked: dict[int, float] = {}
        self._gyroscope_rad_s = 0.0
        self._idle: bytes | None = None
        self._sending = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def malformed(self) -> int:
        """How often something looked like a frame and was none."""
        return self._framing.malformed

    @property
    def error(self) -> str:
        """What went wrong with the connection; empty: nothing."""
        return self._transport.error

    def ask(self, command: int) -> bytes:
        """Return the payload of a command's answer; only before :meth:`start`.

        Raises:
            UserError: None came, or the flight controller does not know the command.
        """
        self._transport.send(msp.request(command))
        end = time.monotonic() + _ANSWER_S
        while (left_s := end - time.monotonic()) > 0.0 and not self.error:
            for frame in self._framing.feed(self._transport.receive(left_s)):
                if frame.command == command:
                    if frame.refused:
                        raise UserError(f"The flight controller does not know the MSP command {command}.")
                    return frame.payload
        raise UserError(
            f"No flight controller answers within {_ANSWER_S:g} s{': ' * bool(self.error)}{self.error}: is it powered,"
            " is MSP on for this port, and the baud rate right?"
        )

    def check_rate(self) -> None:
        """Measure how many commands it answers; raise ``UserError`` if they are too few to fly."""
        rate_hz = 0.0
        for _ in range(_TRIALS):
            start, answers = time.monotonic(), 0
            self._transport.send(msp.request(msp.RC_DEADBAND) * _TRIED)
            while answers < _TRIED and time.monotonic() - start < _ANSWER_S:
                answers += len(self._framing.feed(self._transport.receive(0.05)))
            rate_hz = max(rate_hz, answers / (time.monotonic() - start))
            if rate_hz >= _LEAST_ANSWERS_HZ:
                return
        raise UserError(
            f"The flight controller answers {rate_hz:.0f} MSP commands a second, and flying needs"
            f" {_LEAST_ANSWERS_HZ:.0f}: 'set serial_update_rate_hz = 2000', save; a UART needs 500000 baud or more."
        )

    def start(self, idle: bytes, gyroscope_rad_s: float) -> None:
        """Measure from now on, and send the frame ``idle`` while :meth:`keep_alive` wants it.

        Args:
            idle: Disarmed channels.
            gyroscope_rad_s: Unit of the gyroscope's rates, rad/s.
        """
        self._idle, self._gyroscope_rad_s = idle, gyroscope_rad_s
        self._thread = threading.Thread(target=self._run, name="betaflight", daemon=True)
        self._thread.start()

    def keep_alive(self, idle: bytes | None) -> None:
        """Set the frame that is sent 50 times a second by itself: disarmed channels; None: none."""
        self._idle = idle

    def send_channels(self, channels: Mapping[int, int], count: int) -> None:
        """Send pulse widths, us, by channel; the others are in the middle."""
        self.send(channel_frame(channels, count))

    def send(self, frame: bytes) -> None:
        """Send a frame, from any thread."""
        with self._sending:
            self._transport.send(frame)

    def close(self) -> None:
        """End the thread and close the connection; a second call does nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)
        self._transport.close()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception:  # a reading that grows old is what the guard acts on; the log says why
            _LOG.exception("The link to the flight controller has ended.")

    def _loop(self) -> None:
        due = dict.fromkeys(_PERIODS_S, 0.0)
        alive = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            if (idle := self._idle) is not None and now >= alive:
                self.send(idle)
                alive = now + _KEEP_ALIVE_S
            for command, period_s in _PERIODS_S.items():
                if now >= due[command] and now - self._asked.get(command, -1.0) > _IN_FLIGHT_S:
                    self.send(msp.request(command))
                    self._asked[command] = now
                    due[command] = max(due[command] + period_s, now)
            if self.error:
                self._stop.wait(_IN_FLIGHT_S)
            for frame in self._framing.feed(self._transport.receive(_PATIENCE_S)):
                self._take(frame)

    def _take(self, frame: msp.Frame) -> None:
        self._asked.pop(frame.command, None)
        if frame.refused:
            return
        try:
            if frame.command == msp.RAW_IMU:
                numbers = np.array(struct.unpack_from("<6h", frame.payload), dtype=float)
                self.imu = Imu(time.time(), numbers[:3], numbers[3:] * self._gyroscope_rad_s)
            elif frame.command == msp.STATUS_EX:
                self.status = _status(frame.payload)
            elif frame.command == msp.ATTITUDE:
                roll, pitch = struct.unpack_from("<2h", frame.payload)
                self.attitude = float(np.radians(roll / 10.0)), float(np.radians(pitch / 10.0))
            elif frame.command == msp.BATTERY_STATE:
                cells, current, voltage = (struct.unpack_from(f, frame.payload, at)[0] for f, at in _BATTERY)
                self.battery = Battery(cells, voltage / 100.0, current / 100.0)
        except (struct.error, IndexError):  # right checksum, wrong length
            self._framing.malformed += 1


_BATTERY = (("<B", 0), ("<h", 6), ("<H", 9))


def _status(payload: bytes) -> Status:
    (flags,), more = struct.unpack_from("<I", payload, 6), payload[15]
    for k in range(more):
        flags |= payload[16 + k] << (32 + 8 * k)
    (arming,) = struct.unpack_from("<I", payload, 17 + more)
    return Status(time.time(), flags, arming)


def channel_frame(channels: Mapping[int, int], count: int, middle_us: int = 1500) -> bytes:
    """Return the frame that sends pulse widths, us, by channel."""
    return msp.request(msp.SET_RAW_RC, struct.pack(f"<{count}H", *(channels.get(k, middle_us) for k in range(count))))
