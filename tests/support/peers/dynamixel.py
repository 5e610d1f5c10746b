"""Dynamixel XL330 servos on their bus (ROBOTIS e-Manual: protocol 2.0, XL330-M288), one arm of them.

A servo answers reads and writes as its status return level says, and in a synchronous read each waits for the one
before it. Goals are refused outside the position limits, and while the bus watchdog has run out; torque is refused
while the hardware has an error. The EEPROM (addresses below 64) is locked while torque is on.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from rlstack.kinds.manipulator.spec import Manipulator
from tests.support.peers import Misfit
from tests.support.peers._dynamixel import (
    ACCESS,
    EVERYBODY,
    LENGTH,
    LIMIT,
    PING,
    RANGE,
    READ,
    STATUS,
    SYNC_READ,
    SYNC_WRITE,
    WRITE,
    packed,
    split,
)
from tests.support.peers._servos import Lag, Move, ServoArmPeer, calibration, ranges

MODEL, NUMBER, DRIVE, MODE, OFFSET, HOTTEST, HIGH, LOW = 0, 7, 10, 11, 20, 31, 48, 52
TORQUE, LEVEL, HARDWARE, WATCHDOG, GOAL_PWM, GOAL = 64, 68, 70, 98, 100, 116
PWM, VELOCITY, POSITION, VOLTAGE, TEMPERATURE = 124, 128, 132, 144, 146
SIZE = 147
RPM_TICKS = 0.229 * 4096 / 60
READ_ONLY = 120
HARDWARE_ERROR = 0x80


class Xl330:
    """One servo's control table."""

    def __init__(self, number: int, low: int, high: int, offset: int) -> None:
        self.table = bytearray(SIZE)
        self.fed_s = time.monotonic()
        self.put(MODEL, 1200, 2)
        self.put(OFFSET, offset)
        self.put(LOW, low)
        self.put(HIGH, high)
        self.put(GOAL, (low + high) // 2)
        self.put(GOAL_PWM, 885, 2)
        self.put(36, 885, 2)
        self.put(VOLTAGE, 50, 2)
        for address, value in {NUMBER: number, 6: 46, MODE: 3, HOTTEST: 70, LEVEL: 2, TEMPERATURE: 30, 8: 3}.items():
            self.table[address] = value
        self.move_to(0.5 * (low + high), 0.0)

    def put(self, address: int, value: int, size: int = 4) -> None:
        self.table[address : address + size] = value.to_bytes(size, "little", signed=value < 0)

    def number_at(self, address: int, size: int = 4) -> int:
        return int.from_bytes(self.table[address : address + size], "little", signed=True)

    @property
    def torque(self) -> bool:
        return bool(self.table[TORQUE])

    def move_to(self, ticks: float, speed: float) -> None:
        self.put(POSITION, round(ticks))
        self.put(VELOCITY, round(speed / RPM_TICKS))

    def tick(self) -> None:
        """Look after the watchdog and the temperature."""
        limit = self.table[WATCHDOG]
        if 1 <= limit <= 127 and time.monotonic() - self.fed_s > 0.02 * limit:
            self.table[WATCHDOG] = 0xFF
        if self.table[TEMPERATURE] > self.table[HOTTEST]:
            self.table[HARDWARE] |= 4
        if self.table[HARDWARE]:
            self.table[TORQUE] = 0

    def write(self, address: int, data: bytes) -> int:
        """Write registers; return the error."""
        self.fed_s = time.monotonic()
        if address + len(data) > READ_ONLY:
            return ACCESS
        if address < 64 and self.torque:
            return ACCESS
        if address == GOAL:
            goal = int.from_bytes(data, "little", signed=True)
            if self.table[WATCHDOG] == 0xFF:
                return RANGE
            if not self.number_at(LOW) <= goal <= self.number_at(HIGH):
                return LIMIT
        if address == TORQUE and data[0] and self.table[HARDWARE]:
            return 0
        if address == WATCHDOG and data[0] not in range(128):
            return RANGE
        self.table[address : address + len(data)] = data
        return 0


class DynamixelPeer(ServoArmPeer):
    """An arm; see :class:`tests.support.peers.feetech.FeetechPeer`."""

    def __init__(self, robot: Manipulator | None = None, baud: int = 1_000_000, move: Move | None = None) -> None:
        super().__init__(baud)
        self.robot = robot or Manipulator.load("so100")
        offsets = [1024, -1024, 0, 512, -77, 2048]
        places = ranges(self.robot)
        self.servos = [Xl330(k + 1, low, high, offset) for k, ((low, high), offset) in enumerate(zip(places, offsets))]
        self.move = move or Lag([float(servo.number_at(POSITION)) for servo in self.servos])
        self._folder = tempfile.TemporaryDirectory()
        self.calibration = calibration(self.robot, offsets, Path(self._folder.name) / "follower.json")

    def misfits(self) -> dict[str, Misfit | str]:
        def twice() -> None:
            self.servos.append(Xl330(4, 0, 4095, 0))
            self.move.at.append(0.0)  # type: ignore[attr-defined]

        servo = self.servos[2]
        return {
            "in use": self.in_use(),
            "answers twice": Misfit(("2 servos answer to the number 4", self.port), twice),
            "firmware": Misfit(
                ("Servo 3 (elbow_flex) has the firmware 30", "from 38 on"), lambda: servo.table.__setitem__(6, 30)
            ),
            "calibration": Misfit(("so100 needs its calibration", "calibration=FILE"), uri=f"serial://{self.port}"),
            "joints": Misfit(("Servo 3 (elbow_flex) does not answer",), lambda: servo.table.__setitem__(NUMBER, 9)),
            "limits": Misfit(("has range_max 3000", "says"), lambda: servo.put(HIGH, 3000)),
            "mass": "servos measure no weight; a load beyond the torque limit shows on /diagnostics",
        }

    def tick(self, passed_s: float) -> None:
        for servo in self.servos:
            servo.tick()
        goals = [float(servo.number_at(POSITION if servo.table[WATCHDOG] == 0xFF else GOAL)) for servo in self.servos]
        torques = [servo.torque for servo in self.servos]
        for servo, (ticks, speed) in zip(self.servos, self.move(goals, torques, passed_s)):
            servo.move_to(ticks, speed)

    def frame(self) -> bytes | None:
        packet, self._came = split(self._came)
        if packet is None:
            return None
        number, instruction, given = packet
        return bytes([number, instruction]) + given

    def hear(self, frame: bytes) -> None:
        number, instruction, given = frame[0], frame[1], frame[2:]
        address = int.from_bytes(given[:2], "little")
        count = int.from_bytes(given[2:4], "little")
        if instruction == SYNC_READ:
            for one in given[4:]:
                for servo in self._called(one):
                    self._read(servo, address, count)
        elif instruction == SYNC_WRITE:
            for at in range(4, len(given), count + 1):
                for servo in self._called(given[at]):
                    servo.write(address, given[at + 1 : at + 1 + count])
        else:
            for servo in self._called(number):
                if instruction == PING:
                    self._answer(servo, 0, bytes(servo.table[MODEL : MODEL + 2]) + bytes([servo.table[6]]))
                elif instruction == READ and number != EVERYBODY:
                    self._read(servo, address, count)
                elif instruction == WRITE:
                    error = servo.write(address, given[2:])
                    if servo.table[LEVEL] == 2 and number != EVERYBODY:
                        self._answer(servo, error, b"")

    def _read(self, servo: Xl330, address: int, count: int) -> None:
        servo.fed_s = time.monotonic()
        if servo.table[LEVEL] == 0:
            return
        if address + count > SIZE:
            self._answer(servo, LENGTH, b"")
        else:
            self._answer(servo, 0, bytes(servo.table[address : address + count]))

    def _called(self, number: int) -> list[Xl330]:
        return [servo for servo in self.servos if number in (servo.table[NUMBER], EVERYBODY)]

    def _answer(self, servo: Xl330, error: int, data: bytes) -> None:
        alert = HARDWARE_ERROR if servo.table[HARDWARE] else 0
        self.say(packed(servo.table[NUMBER], STATUS, bytes([error | alert]) + data))


PEER = DynamixelPeer
