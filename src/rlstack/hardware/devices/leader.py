"""A leader arm of serial bus servos (Feetech STS, as in the SO-100), read with Feetech's library scservo_sdk.

The arm's file maps servos to the robot's joints. Servo torque is switched off, so that the operator can move them.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from rlstack import schema
from rlstack.errors import UserError
from rlstack.hardware.devices import TeleopInput
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.libraries import import_library
from rlstack.schema import value
from rlstack.yaml_files import read_yaml

TICKS = 4096
"""Encoder ticks per revolution (STS3215 data sheet, 12 bits)."""
TORQUE_ENABLE, PRESENT_POSITION = 40, 56
"""Addresses in the control table of the STS series (Feetech, memory table of the STS3215)."""

_GONE_S = 0.5
"""How long readings may fail in a row before the arm counts as disconnected; the robot holds its last target."""
_FIND_S = 1.0
"""How long a servo is polled before it counts as missing: one that was just powered takes a while to answer."""


@dataclass(frozen=True, kw_only=True)
class Servo:
    """One servo and the joint that it maps to."""

    joint: str
    """Name of the robot's joint."""
    id: int = value(at_least=0, at_most=253)
    """Number on the bus."""
    zero: int = value(2048, unit="ticks", at_least=0, at_most=TICKS - 1)
    """Servo position at which the joint is at 0."""
    ratio: float = 1.0
    """Joint motion, rad or m, per rad of the servo; negative if it turns the other way."""


@dataclass(frozen=True, kw_only=True)
class LeaderArm:
    """A leader arm's file."""

    port: str
    """Serial port, such as /dev/ttyACM0."""
    baud: int = value(1_000_000, above=0)
    servos: tuple[Servo, ...]


class Leader:
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        where: A YAML file, see :class:`LeaderArm`.
        robot: The robot to teleoperate.

    Raises:
        UserError: The file cannot be read, names a joint that the robot lacks, or names a servo twice.
    """

    live = True
    keys = "move the leader arm: the robot's joints follow    Ctrl-C stop"

    def __init__(self, where: str, robot: Manipulator) -> None:
        if not where:
            raise UserError("The device leader needs its file: leader:FILE.yaml, with port and servos.")
        self._arm: LeaderArm = schema.load(LeaderArm, read_yaml(where, "the leader arm's file"), where)
        known = [drive.name for drive in robot.drives]
        for servo in self._arm.servos:
            if servo.joint not in known:
                raise UserError(f"{where}: {robot.name} has no joint '{servo.joint}'; it has: {', '.join(known)}.")
        for what in ("id", "joint"):
            named = [getattr(servo, what) for servo in self._arm.servos]
            if len(set(named)) != len(named) or not named:
                raise UserError(f"{where}: servos: there must be at least one, each with its own {what}.")
        self._port: Any = None
        self._group: Any = None
        self._silent_at: float | None = None
        """Monotonic time of the first failed reading since the last good one, s."""
        self._last: dict[str, float] = {}
        self._ticks: dict[int, int] = {}
        """Encoder ticks from zero, by servo."""

    def open(self) -> None:
        """Open the port, find every servo and switch off its torque."""
        sdk = import_library("scservo_sdk", "teleop")
        arm = self._arm
        port = sdk.PortHandler(arm.port)
        try:
            opened = port.setBaudRate(arm.baud)  # opens it
        except Exception as error:  # errors of pyserial and of the system
            raise UserError(f"The leader arm's port {arm.port} cannot be opened ({error}): plug it in.") from error
        if not opened:
            raise UserError(f"{arm.port} cannot run at {arm.baud} baud: these servos come with 1000000.")
        self._port, self._silent_at, self._last, self._ticks = port, None, {}, {}
        packets = sdk.PacketHandler(0)  # the STS series sends low bytes first
        self._group = sdk.GroupSyncRead(port, packets, PRESENT_POSITION, 2)
        for servo in arm.servos:
            until = time.monotonic() + _FIND_S
            while packets.write1ByteTxRx(port, servo.id, TORQUE_ENABLE, 0)[0] != sdk.COMM_SUCCESS:
                if time.monotonic() > until:
                    self.close()
                    raise UserError(
                        f"No servo {servo.id} ({servo.joint}) answers on {arm.port}: check its power, cable and number."
                    )
            self._group.addParam(servo.id)

    def read(self) -> TeleopInput:
        """Return the leader arm's joint positions."""
        while self._group.txRxPacket() != 0:
            now = time.monotonic()
            self._silent_at = now if self._silent_at is None else self._silent_at
            if now - self._silent_at > (_GONE_S if self._last else _FIND_S):
                raise UserError(f"The leader arm on {self._arm.port} does not answer any more: check power and cable.")
            if self._last:
                return TeleopInput(joints=self._last)
        self._silent_at = None
        found = {}
        for servo in self._arm.servos:
            ticks = self._group.getData(servo.id, PRESENT_POSITION, 2)
            ticks = -(ticks & 0x7FFF) if ticks & 0x8000 else ticks  # sign and magnitude
            # unwrapped: nearest to the last position, at first to zero, as a servo may pass its 0 and half a revolution
            before = self._ticks.get(servo.id, 0)
            away = before + (ticks - servo.zero - before + TICKS // 2) % TICKS - TICKS // 2
            self._ticks[servo.id] = away
            found[servo.joint] = servo.ratio * away * 2.0 * math.pi / TICKS
        self._last = found
        return TeleopInput(joints=found)

    def close(self) -> None:
        """Close the port."""
        if self._port is not None and self._port.is_open:
            self._port.closePort()
        self._port = None


DEVICE = Leader
