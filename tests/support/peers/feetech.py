"""STS3215 servos on their half-duplex bus (Feetech: communication protocol and memory table of the STS series).

A packet is FF FF, number, length, instruction or error, parameters, and the complement of the sum of all but FF FF. A
packet with a wrong sum is ignored. A servo answers a broadcast only if it asks (ping, synchronous read); whether it
answers writes is its status level. An overheated servo, or one whose voltage is wrong, says so in every answer and lets
go of its load.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rlstack.kinds.manipulator.spec import Manipulator
from tests.support.peers import Misfit
from tests.support.peers._servos import Lag, Move, ServoArmPeer, calibration, ranges

PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 0x01, 0x02, 0x03, 0x82, 0x83
EVERYBODY = 0xFE
MODEL, NUMBER, STATUS_LEVEL, LOW, HIGH, HOTTEST, OFFSET, TORQUE, GOAL, SPEED = 3, 5, 8, 9, 11, 13, 31, 40, 42, 46
POSITION, VELOCITY, LOAD, VOLTAGE, TEMPERATURE, STATUS = 56, 58, 60, 62, 63, 65
SIZE = 87


class Sts3215:
    """One servo's memory, by address."""

    def __init__(self, number: int, low: int = 0, high: int = 4095, offset: int = 0, at: int = 2047) -> None:
        self.memory = bytearray(SIZE)
        self.errors = 0
        """Errors beside those that follow from the memory: overload 32, overcurrent 8."""
        for address, value in ((MODEL, 777), (LOW, low), (HIGH, high), (GOAL, at), (48, 1000), (16, 1000)):
            self.put(address, value)
        self.put(OFFSET, -offset | 0x800 if offset < 0 else offset)
        single = {
            NUMBER: number,
            0: 3,
            1: 10,
            STATUS_LEVEL: 1,
            HOTTEST: 70,
            14: 80,
            15: 40,
            VOLTAGE: 74,
            TEMPERATURE: 30,
            55: 1,
        }
        for address, value in single.items():
            self.memory[address] = value
        self.move_to(at, 0.0)

    def put(self, address: int, value: int) -> None:
        self.memory[address : address + 2] = value.to_bytes(2, "little")

    def word(self, address: int) -> int:
        return int.from_bytes(self.memory[address : address + 2], "little")

    @property
    def number(self) -> int:
        return self.memory[NUMBER]

    @property
    def torque(self) -> bool:
        return bool(self.memory[TORQUE]) and not self.status & 0b101100

    @property
    def goal(self) -> int:
        goal = self.word(GOAL)
        goal = -(goal & 0x7FFF) if goal & 0x8000 else goal
        return min(max(goal, self.word(LOW)), self.word(HIGH))

    @property
    def status(self) -> int:
        volts = self.memory[VOLTAGE]
        hot = 4 if self.memory[TEMPERATURE] > self.memory[HOTTEST] else 0
        return self.errors | hot | (0 if self.memory[15] <= volts <= self.memory[14] else 1)

    def move_to(self, ticks: float, speed: float) -> None:
        at, rate = round(ticks), round(speed)
        self.put(POSITION, -at | 0x8000 if at < 0 else at)
        self.put(VELOCITY, -rate | 0x8000 if rate < 0 else rate)
        self.memory[STATUS] = self.status


class FeetechPeer(ServoArmPeer):
    """An SO-100's follower.

    Args:
        robot: Its joints are the servos, numbered from 1.
        baud: As for :class:`ServoArmPeer`.
        move: How the servos move; by default with a lag.
    """

    def __init__(self, robot: Manipulator | None = None, baud: int = 1_000_000, move: Move | None = None) -> None:
        super().__init__(baud)
        self.robot = robot or Manipulator.load("so100")
        offsets = [-1470, 821, 1033, -512, 77, -1204][: len(self.robot.drives)]
        places = ranges(self.robot)
        self.servos = [
            Sts3215(k + 1, low, high, offset, (low + high) // 2)
            for k, ((low, high), offset) in enumerate(zip(places, offsets))
        ]
        self.move = move or Lag([float(servo.word(POSITION)) for servo in self.servos])
        self._folder = tempfile.TemporaryDirectory()
        self.calibration = calibration(self.robot, offsets, Path(self._folder.name) / "follower.json")
        self.pings = 0

    def misfits(self) -> dict[str, Misfit | str]:
        def twice() -> None:
            self.servos.append(Sts3215(4))
            self.move.at.append(0.0)  # type: ignore[attr-defined]

        servo = self.servos[2]
        return {
            "in use": self.in_use(),
            "answers twice": Misfit(("2 servos answer to the number 4", self.port), twice),
            "firmware": Misfit(
                ("Servo 3 (elbow_flex) has the firmware 2", "of 3"), lambda: servo.memory.__setitem__(0, 2)
            ),
            "calibration": Misfit(("so100 needs its calibration", "calibration=FILE"), uri=f"serial://{self.port}"),
            "joints": Misfit(("Servo 3 (elbow_flex) does not answer",), lambda: servo.memory.__setitem__(NUMBER, 9)),
            "limits": Misfit(("has range_max 3000", "says"), lambda: servo.put(HIGH, 3000)),
            "mass": "servos measure no weight; a load beyond the torque limit shows on /diagnostics",
        }

    def tick(self, passed_s: float) -> None:
        goals, torques = [float(servo.goal) for servo in self.servos], [servo.torque for servo in self.servos]
        for servo, (ticks, speed) in zip(self.servos, self.move(goals, torques, passed_s)):
            servo.move_to(ticks, speed)

    def frame(self) -> bytes | None:
        while (start := self._came.find(b"\xff\xff")) >= 0 and len(self._came) >= start + 4:
            length = self._came[start + 3]
            if length == 0xFF or length < 2:  # FF FF FF is a header one byte later
                self._came = self._came[start + 1 :]
                continue
            end = start + 4 + length
            if len(self._came) < end:
                return None
            packet, self._came = self._came[start:end], self._came[end:]
            if ~sum(packet[2:-1]) & 0xFF == packet[-1]:
                return packet
        return None

    def hear(self, packet: bytes) -> None:
        number, instruction, given = packet[2], packet[4], packet[5:-1]
        if instruction == SYNC_READ:
            for one in given[2:]:
                for servo in self._called(one):
                    self._answer(servo, bytes(servo.memory[given[0] : given[0] + given[1]]))
        elif instruction == SYNC_WRITE:
            size = given[1]
            for at in range(2, len(given), size + 1):
                for servo in self._called(given[at]):
                    servo.memory[given[0] : given[0] + size] = given[at + 1 : at + 1 + size]
        else:
            for servo in self._called(number):
                self._told(servo, instruction, given, number == EVERYBODY)

    def _told(self, servo: Sts3215, instruction: int, given: bytes, everybody: bool) -> None:
        if instruction == PING:
            self._answer(servo, b"")
        elif instruction == READ and not everybody:
            self._answer(servo, bytes(servo.memory[given[0] : given[0] + given[1]]))
        elif instruction == WRITE:
            servo.memory[given[0] : given[0] + len(given) - 1] = given[1:]
            if servo.memory[STATUS_LEVEL] and not everybody:
                self._answer(servo, b"")

    def _called(self, number: int) -> list[Sts3215]:
        return [servo for servo in self.servos if number in (servo.number, EVERYBODY)]

    def _answer(self, servo: Sts3215, data: bytes) -> None:
        body = bytes([servo.number, len(data) + 2, servo.status, *data])
        self.say(b"\xff\xff" + body + bytes([~sum(body) & 0xFF]))


PEER = FeetechPeer
