"""A leader arm of serial bus servos (Feetech STS, as in the SO-100, or Dynamixel X), read over their bus.

The arm's file maps servos to the robot's joints, each by its zero and ratio, or all by LeRobot's calibration file.
Servo torque is switched off, so that the operator can move them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rlstack import schema
from rlstack.errors import UserError
from rlstack.hardware.devices import TeleopInput
from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.servos.bus import ServoBus
from rlstack.hardware.servos.calibration import read_calibration, tick_scales
from rlstack.hardware.servos.kinds import KINDS, TICK_RAD, TICKS
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.yaml_files import read_yaml

_GONE_S = 0.5
"""How long readings may fail in a row before the arm counts as disconnected; the robot holds its last target."""
_FIND_S = 1.0
"""How long the first reading may take."""


@dataclass(frozen=True, kw_only=True)
class Servo:
    """One servo and the joint that it maps to."""

    joint: str
    """Name of the robot's joint."""
    id: int = value(at_least=0, at_most=252)
    """Number on the bus."""
    zero: int = value(2048, unit="ticks", at_least=0, at_most=TICKS - 1)
    """Servo position at which the joint is at 0."""
    ratio: float = 1.0
    """Joint motion, rad or m, per rad of the servo; negative if it turns the other way."""


@dataclass(frozen=True, kw_only=True)
class LeaderArm:
    """A leader arm's file; it has either ``servos`` or a ``calibration``."""

    port: str
    """Serial port, such as /dev/ttyACM0."""
    bus: Literal["feetech", "dynamixel"] = "feetech"
    """Whose servos they are."""
    baud: int = value(1_000_000, above=0)
    servos: tuple[Servo, ...] = ()
    calibration: str = ""
    """LeRobot's calibration of this arm, for a robot whose joints it names: their middles are each other's."""
    reverse: tuple[str, ...] = ()
    """With a calibration: joints that turn the other way than it says."""
    range_tolerance: float = value(0.3, unit="rad", at_least=0.0)
    """With a calibration: how far its ranges may differ in length from the robot file's."""

    def __post_init__(self) -> None:
        if bool(self.servos) == bool(self.calibration):
            raise ValueError("servos: exactly one of servos and calibration is required.")


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
        kind = KINDS[self._arm.bus]
        self._angles = self._calibrated(robot) if self._arm.calibration else self._listed(where, robot)
        self._bus = ServoBus(kind, self._arm.port, self._arm.baud, {one: joint for one, joint, _ in self._angles})
        self._silent_at: float | None = None
        """Monotonic time of the first failed reading since the last good one, s."""
        self._last: dict[str, float] = {}

    def open(self) -> None:
        """Open the port, find every servo and switch off its torque."""
        self._silent_at, self._last = None, {}
        try:
            self._bus.open()
            self._bus.find()
            self._bus.set(self._bus.kind.torque, dict.fromkeys(self._bus.servos, 0))
        except LinkLost as error:
            self.close()
            raise UserError(f"The leader arm on {self._arm.port} was lost ({error}): check its cable.") from error
        except UserError:
            self.close()
            raise

    def read(self) -> TeleopInput:
        """Return the leader arm's joint positions."""
        position = self._bus.kind.position
        while True:
            try:
                found = self._bus.read(position)
            except LinkLost as error:
                raise UserError(f"The leader arm on {self._arm.port} was lost ({error}): check its cable.") from error
            if len(found) == len(self._bus.servos):
                break
            now = time.monotonic()
            self._silent_at = now if self._silent_at is None else self._silent_at
            if now - self._silent_at > (_GONE_S if self._last else _FIND_S):
                raise UserError(f"The leader arm on {self._arm.port} does not answer any more: check power and cable.")
            if self._last:
                return TeleopInput(joints=self._last)
        self._silent_at = None
        self._last = {joint: angle(position.decode(found[one].data)) for one, joint, angle in self._angles}
        return TeleopInput(joints=self._last)

    def close(self) -> None:
        """Close the port."""
        self._bus.close()

    def _listed(self, where: str, robot: Manipulator) -> list[tuple[int, str, Callable[[int], float]]]:
        known = [drive.name for drive in robot.drives]
        for servo in self._arm.servos:
            if servo.joint not in known:
                raise UserError(f"{where}: {robot.name} has no joint '{servo.joint}'; it has: {', '.join(known)}.")
        for what in ("id", "joint"):
            named = [getattr(servo, what) for servo in self._arm.servos]
            if len(set(named)) != len(named):
                raise UserError(f"{where}: servos: there must be at least one, each with its own {what}.")
        return [(servo.id, servo.joint, _Unwrapped(servo)) for servo in self._arm.servos]

    def _calibrated(self, robot: Manipulator) -> list[tuple[int, str, Callable[[int], float]]]:
        names = [drive.name for drive in robot.drives]
        motors = read_calibration(self._arm.calibration, names, robot.name)
        turned = set(self._arm.reverse)
        if KINDS[self._arm.bus].drive_mode is None:
            turned ^= {name for name in names if motors[name].drive_mode}
        scales = tick_scales(
            motors,
            robot.drives,
            turned=turned,
            tolerance_rad=self._arm.range_tolerance,
            where=self._arm.calibration,
        )
        return [(motors[name].id, name, scale.angle) for name, scale in zip(names, scales)]


class _Unwrapped:
    """A servo's angle times its ratio, nearest to the last one: a servo may pass its 0 and half a revolution."""

    def __init__(self, servo: Servo) -> None:
        self._servo, self._away = servo, 0

    def __call__(self, ticks: int) -> float:
        """Return the joint's position, rad or m."""
        before = self._away
        self._away = before + (ticks - self._servo.zero - before + TICKS // 2) % TICKS - TICKS // 2
        return self._servo.ratio * self._away * TICK_RAD


DEVICE = Leader
