"""Differential bases with a microcontroller that speaks rlstack's serial protocol: ``serial:///dev/ttyACM0``."""

from __future__ import annotations

import math
import time

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware import serial_protocol as protocol
from rlstack.hardware.captures import OPTIONS, Captures
from rlstack.hardware.linked_base import ODOMETRY, LinkedBase
from rlstack.hardware.serial_port import LinkLost, SerialPort, port_of
from rlstack.hardware.serial_protocol import Flag, Hello, State
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Reading
from rlstack.robots import RobotSpec

_HELLO_S = 3.5
"""How long a base may take to say what it is: opening the port restarts an Arduino, whose boot loader takes 2 s."""
_AGAIN_S = 0.25
_SAME = 0.01
"""Share by which the base's measures may differ from the robot file's."""
_OBEYS_S = 0.2
"""How long a base may take to say that its motors are on: the order may have been lost."""
_POLL_HZ = 200.0
_STOPPED = {
    Flag.EMERGENCY_STOP: "its emergency stop is pressed: release it",
    Flag.MOTOR_FAULT: "a motor driver reports a fault: look at motors and supply",
}


class SerialBase(LinkedBase):
    """See :class:`rlstack.hardware.linked_base.LinkedBase`.

    Args:
        robot: The robot.
        uri: The port and options, such as ``serial:///dev/ttyACM0?baud=115200&lidar=/dev/ttyUSB0``.

    Raises:
        UserError: The URI or an option is refused, or the robot is not a differential base with two wheels.
    """

    NAME = "serial_base"
    sensed = (*ODOMETRY, "battery_voltage", "battery_percentage")

    def __init__(self, robot: RobotSpec, *, uri: str = "") -> None:
        example = "serial:///dev/ttyACM0?baud=115200"
        given = parse_uri(uri, self.NAME, {"serial": example}, {"baud": 115200, **OPTIONS})
        super().__init__(robot, _POLL_HZ, Captures(robot, given.options))
        self._port = SerialPort(port_of(given, example), given.options["baud"])
        self._parser = protocol.Parser()
        self._hello: Hello | None = None
        self._ahead_s = math.inf
        """The least difference of the system's clock and the base's at a state's arrival, s."""
        self._last_ms = 0
        self._powered_s = -math.inf

    def _open(self) -> None:
        self._port.open()
        self._parser, self._hello, self._ahead_s = protocol.Parser(), None, math.inf
        end, asked = time.monotonic() + _HELLO_S, -math.inf
        while self._hello is None:
            if (now := time.monotonic()) > end:
                raise UserError(
                    f"Nothing on {self._port.name} says what base it is: check power, cable and baud rate, and that its"
                    " firmware speaks the protocol of docs/hardware.md."
                )
            if now - asked > _AGAIN_S:
                asked = now
                self._port.write(protocol.ask())
            for message in self._parser.feed(self._port.read(0.02)):
                if isinstance(message, Hello):
                    self._hello = message
        self._check(self._hello)
        self.report["firmware"] = f"{self._hello.name or 'without a name'}, protocol {self._hello.version}"
        self._port.write(protocol.power(False))

    def _check(self, hello: Hello) -> None:
        """Refuse a base that is not that of the robot file; the message has both values."""
        where, limits = f"The base {hello.name or 'without a name'} on {self._port.name}", self._base.limits
        if hello.version != protocol.VERSION:
            raise UserError(
                f"{where} speaks version {hello.version} of the protocol, and this driver version {protocol.VERSION}:"
                " update its firmware."
            )
        for what, theirs, ours in (
            ("wheels of radius", hello.wheel_radius_m, self._wheels.radius_m),
            ("a track of", hello.track_m, self._wheels.track_m),
        ):
            if not abs(theirs - ours) <= _SAME * ours:
                raise UserError(
                    f"{where} has {what} {theirs:.4f} m, and the robot file of {self.robot.name} has {ours:.4f} m:"
                    " correct the one that is wrong."
                )
        for what, theirs, ours, unit in (
            ("speed", hello.linear_velocity_m_s, limits.linear_velocity_m_s, "m/s"),
            ("turning speed", hello.angular_velocity_rad_s, limits.angular_velocity_rad_s, "rad/s"),
        ):
            if not theirs >= ours * (1.0 - _SAME):
                raise UserError(
                    f"{where} limits its {what} to {theirs:.3f} {unit}, and the robot file of {self.robot.name} allows"
                    f" {ours:.3f} {unit}: lower the robot file's limit."
                )
        if not 0.0 < 1e-3 * hello.watchdog_ms <= limits.command_timeout_s:
            raise UserError(
                f"{where} stops {hello.watchdog_ms} ms after its last command, and the robot file of {self.robot.name}"
                f" has a command_timeout_s of {limits.command_timeout_s:g}: the base must stop by then."
            )
        if hello.ticks_per_turn < 1:
            raise UserError(f"{where} counts {hello.ticks_per_turn} ticks in a turn of a wheel: it must be 1 or more.")

    def _poll(self) -> Reading | None:
        newest: State | None = None
        for message in self._parser.feed(self._port.read(0.0)):
            if isinstance(message, State) and _finite(message):
                self._ahead_s = self._heard(message)
                newest = message
        return None if newest is None else self._reading_of(newest)

    def _heard(self, state: State) -> float:
        """Return how far the system's clock is ahead of the base's, by the state that came the fastest."""
        ahead = time.time() - 1e-3 * state.time_ms
        restarted = state.time_ms < self._last_ms
        self._last_ms = state.time_ms
        if restarted or abs(ahead - self._ahead_s) > 1.0:
            return ahead
        return min(ahead, self._ahead_s + 1e-5)  # clocks drift: forget the fastest one little by little

    def _reading_of(self, state: State) -> Reading:
        assert self._hello is not None
        time_s, tick = self._ahead_s + 1e-3 * state.time_ms, 2.0 * math.pi / self._hello.ticks_per_turn
        turned = self._wheels.joints(tick * state.left_ticks, tick * state.right_ticks)
        speeds = self._wheels.joints(state.left_rad_s, state.right_rad_s)
        said = [text for flag, text in _STOPPED.items() if flag in state.flags]
        self.trouble = f"{self.robot.name} does not move: {'; '.join(said)}" if said else ""
        if self.trouble or (Flag.MOTORS_ON not in state.flags and time.monotonic() - self._powered_s > _OBEYS_S):
            self.powered = False  # the next command powers it again
        if not self.powered and Flag.MOTORS_ON in state.flags:
            self._port.write(protocol.power(False))  # that order was lost
        percent = state.battery_percent / 100.0 if state.battery_percent <= 100 else 1.0
        return Reading(
            time_s,
            {
                **self._odometry.signals(time_s, turned, speeds),
                "battery_voltage": np.array([state.battery_v]),
                "battery_percentage": np.array([percent]),
            },
        )

    def _power(self) -> None:
        self._port.write(protocol.velocity(0.0, 0.0) + protocol.power(True))
        self._powered_s = time.monotonic()

    def _send(self, command: Array) -> None:
        self._port.write(protocol.velocity(*command.tolist()))

    def _unpower(self) -> None:
        if not self._port.is_open:
            raise LinkLost(f"{self._port.name} is closed")
        for _ in range(3):  # a frame may be lost; the base's watchdog stops it in any case
            self._port.write(protocol.velocity(0.0, 0.0) + protocol.power(False))

    def _shut(self) -> None:
        self._port.close()


def _finite(state: State) -> bool:
    return all(map(math.isfinite, (state.left_rad_s, state.right_rad_s, state.battery_v)))


BACKEND = SerialBase
