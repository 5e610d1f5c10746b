"""TurtleBot3 bases by their OpenCR board, whose control table is that of a Dynamixel: ``serial:///dev/ttyACM0``."""

from __future__ import annotations

import math
import struct
import time

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.captures import OPTIONS, Captures
from rlstack.hardware.linked_base import ODOMETRY, LinkedBase
from rlstack.hardware.linked_robot import checked_options
from rlstack.hardware.serial_port import port_of
from rlstack.hardware.servos.bus import Answer, ServoBus
from rlstack.hardware.servos.kinds import BusKind, DynamixelPackets, Register
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Reading
from rlstack.robots import RobotSpec

OPENCR = BusKind(
    name="OpenCR",
    library="dynamixel_sdk",
    extra="dynamixel",
    packets=DynamixelPackets,
    baud=115200,
    models={0x5000: "TurtleBot3"},
    settings=(0, 10),
    model=Register(0, 2),
    firmware=Register(6),
)
_ID = 200
# ROBOTIS, OpenCR's firmware for TurtleBot3: the control table
_KIND = Register(2, 4)
_MILLIS = Register(10, 4)
_STATUS = Register(18, 1, signed=True)
_HEARTBEAT = Register(19)
_VOLTAGE = Register(42, 4, unit=0.01)
_PERCENT = Register(46, 4, unit=1e-4)
_GYROSCOPE, _ACCELEROMETER = 60, 72
"""Three floats each: rad/s and m/s^2."""
_LEFT_SPEED, _RIGHT_SPEED = Register(128, 4, signed=True), Register(132, 4, signed=True)
_LEFT, _RIGHT = Register(136, 4, signed=True), Register(140, 4, signed=True)
_TORQUE = Register(149)
_TWIST = 150
"""Six whole numbers: linear x, y, z in cm/s, angular x, y, z in 0.01 rad/s."""
_BLOCK = (10, 134)
"""What is read at once, from the clock to the wheels' positions."""
_SPEED_RAD_S = 0.229 * 2.0 * math.pi / 60.0
_TICK_RAD = 2.0 * math.pi / 4096
_MODELS = {
    1: ("Burger", 0.033, 0.160, 0.22, 2.84),
    2: ("Waffle", 0.033, 0.287, 0.26, 1.82),
    3: ("Waffle Pi", 0.033, 0.287, 0.26, 1.82),
}
"""Names, wheel radius and distance between the wheels, m, and top speeds, m/s and rad/s, by model information."""
_BEAT_S = 0.1
"""The board forgets commands 0.5 s after the last heartbeat."""
_SAME = 0.01


class OpenCr(LinkedBase):
    """See :class:`rlstack.hardware.linked_base.LinkedBase`.

    Args:
        robot: The robot.
        uri: The port and options, such as ``serial:///dev/ttyACM0?lidar=/dev/ttyUSB0``.

    Raises:
        UserError: The URI or an option is refused, or the robot is not a differential base with two wheels.
    """

    NAME = "opencr"
    sensed = (*ODOMETRY, "linear_acceleration", "imu_angular_velocity", "battery_voltage", "battery_percentage")
    _twist_step = np.array([0.01, 0.01])

    def __init__(self, robot: RobotSpec, *, uri: str = "") -> None:
        example = "serial:///dev/ttyACM0"
        options = {"baud": OPENCR.baud, "rate": 100.0, "answer_ms": 20.0, **OPTIONS}
        given = parse_uri(uri, self.NAME, {"serial": example}, options)
        checked_options(self.NAME, given.options, {"rate": (1.0, 1000.0), "answer_ms": (0.5, 200.0)})
        super().__init__(robot, given.options["rate"], Captures(robot, given.options))
        answer_s = 1e-3 * given.options["answer_ms"]
        self.bus = ServoBus(OPENCR, port_of(given, example), given.options["baud"], {_ID: "OpenCR"}, answer_s)
        """The link; its ``latencies_s`` are measured."""
        self._millis = -1
        self._beats = 0
        self._beaten_s = -math.inf

    def _open(self) -> None:
        bus = self.bus
        bus.open()
        bus.find()
        kind = bus.setting(_KIND)[_ID]
        name, radius, track, *fastest = _MODELS.get(kind, (f"model {kind}", *4 * (math.nan,)))
        for what, theirs, ours in (
            ("wheels of radius", radius, self._wheels.radius_m),
            ("a track of", track, self._wheels.track_m),
        ):
            if not abs(theirs - ours) <= _SAME * ours:
                raise UserError(
                    f"The OpenCR on {bus.port_name} has the firmware of a TurtleBot3 {name}, with {what} {theirs:.3f}"
                    f" m, and the robot file of {self.robot.name} has {ours:.3f} m: flash the right one, or give the"
                    " right file."
                )
        limits = self._base.limits
        for what, theirs, ours in (
            ("m/s", fastest[0], limits.linear_velocity_m_s),
            ("rad/s", fastest[1], limits.angular_velocity_rad_s),
        ):
            if ours > (1.0 + _SAME) * theirs:
                raise UserError(
                    f"The OpenCR on {bus.port_name} drives a TurtleBot3 {name} at {theirs:.2f} {what} at most, and the"
                    f" robot file of {self.robot.name} allows {ours:.2f} {what}: lower the robot file's limit."
                )
        self.report["firmware"] = f"OpenCR of a TurtleBot3 {name}, version {bus.setting(OPENCR.firmware)[_ID]}"
        self._beaten_s, self._millis = -math.inf, -1
        self._first()
        if self.trouble:
            raise UserError(
                f"{self.trouble} on {bus.port_name}: switch the power on, check the motors' cable, and press its reset"
                " button."
            )

    def _poll(self) -> Reading | None:
        start = time.time()
        answer = self.bus.read(_BLOCK).get(_ID)
        if answer is None:
            return None
        time_s = 0.5 * (start + time.time())
        millis = answer.count(_MILLIS, _BLOCK[0])
        if millis == self._millis:
            return None  # the table has not been renewed since
        self._millis = millis
        status = answer.count(_STATUS, _BLOCK[0])
        self.trouble = f"The OpenCR has no connection with its motors (status {status})" if status < 0 else ""
        return self._reading_of(answer, time_s)

    def _reading_of(self, answer: Answer, time_s: float) -> Reading | None:
        first, wheels = _BLOCK[0], self._wheels
        left, right, left_speed, right_speed = (
            answer.count(register, first) for register in (_LEFT, _RIGHT, _LEFT_SPEED, _RIGHT_SPEED)
        )
        gyroscope, accelerometer = (
            np.array(struct.unpack_from("<3f", bytes(answer.data), address - first))
            for address in (_GYROSCOPE, _ACCELEROMETER)
        )
        if not (np.isfinite(gyroscope).all() and np.isfinite(accelerometer).all()):
            return None
        return Reading(
            time_s,
            {
                **self._odometry.signals(
                    time_s,
                    wheels.joints(_TICK_RAD * left, _TICK_RAD * right),
                    wheels.joints(_SPEED_RAD_S * left_speed, _SPEED_RAD_S * right_speed),
                ),
                "linear_acceleration": accelerometer,
                "imu_angular_velocity": gyroscope,
                "battery_voltage": np.array([_VOLTAGE.unit * answer.count(_VOLTAGE, first)]),
                "battery_percentage": np.array([min(_PERCENT.unit * answer.count(_PERCENT, first), 1.0)]),
            },
        )

    def _tick(self) -> None:
        super()._tick()
        if time.monotonic() - self._beaten_s >= _BEAT_S:
            self._beats = (self._beats + 1) % 256
            if self.bus.put(_ID, _HEARTBEAT.address, bytes([self._beats])):
                self._beaten_s = time.monotonic()

    def _power(self) -> None:
        self._tell_twist(np.zeros(2))
        self.bus.put_surely(_ID, _TORQUE, 1)

    def _send(self, command: Array) -> None:
        self._tell_twist(command)

    def _tell_twist(self, twist: Array) -> None:
        forward, turn = np.rint(twist / self._twist_step).astype(int).tolist()
        self.bus.put(_ID, _TWIST, struct.pack("<6i", forward, 0, 0, 0, 0, turn))

    def _unpower(self) -> None:
        self.bus.require_open()
        self._tell_twist(np.zeros(2))
        self.bus.put_surely(_ID, _TORQUE, 0)

    def _shut(self) -> None:
        self.bus.close()


BACKEND = OpenCr
