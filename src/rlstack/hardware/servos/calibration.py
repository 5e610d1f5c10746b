"""Calibrations of servo arms: LeRobot's files as they are, and what a servo's ticks are as a joint's angle.

LeRobot writes one JSON file for each arm: for every motor its ``id``, ``drive_mode`` (1: it turns the other way),
``homing_offset``, and ``range_min`` and ``range_max``, the ticks at the ends of the range that it was moved through by
hand. The same three numbers are in the servos, so that a file of another arm is noticed. The middle of that range is
the middle of the joint's range in the robot file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlstack import schema
from rlstack.errors import UserError
from rlstack.hardware.servos.kinds import TICK_RAD, TICKS
from rlstack.robots.joints import DrivenJoint
from rlstack.schema import value

_HOW = (
    "calibrate the arm with LeRobot (lerobot-calibrate) and give the file that it writes, below"
    " ~/.cache/huggingface/lerobot/calibration"
)


@dataclass(frozen=True, kw_only=True)
class MotorCalibration:
    """One motor of a calibration file."""

    id: int = value(at_least=0, at_most=252)
    """Number on the bus."""
    drive_mode: int = value(0, at_least=0, at_most=1)
    """1: it turns the other way."""
    homing_offset: int = 0
    """Ticks that the servo subtracts (Feetech) or adds (Dynamixel) by itself."""
    range_min: int
    """Ticks at one end of the joint's range."""
    range_max: int

    def __post_init__(self) -> None:
        if self.range_min >= self.range_max:
            raise ValueError(f"range_min: {self.range_min} is not allowed: must be below range_max ({self.range_max}).")


def read_calibration(path: str, names: Collection[str], owner: str) -> dict[str, MotorCalibration]:
    """Return a calibration file's motors by joint, in the order of ``names``.

    Args:
        path: The file.
        names: The robot's joints, each of which must be there.
        owner: The robot's name, for messages.

    Raises:
        UserError: There is none, or it is not one; a joint is missing or unknown; two motors have one number.
    """
    if not path:
        raise UserError(f"{owner} needs its calibration: {_HOW}, as calibration=FILE in --uri.")
    file = Path(path).expanduser()
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"The calibration {file} does not exist: {_HOW}.") from error
    except (OSError, ValueError) as error:
        raise UserError(f"The calibration {file} cannot be read ({error}): {_HOW}.") from error
    if not isinstance(data, dict):
        raise UserError(f"The calibration {file} is not a mapping of motors: {_HOW}.")
    if set(data) != set(names):
        raise UserError(
            f"The calibration {file} is for the joints {', '.join(sorted(data))}, and {owner} has"
            f" {', '.join(names)}: give that of this arm."
        )
    motors = {name: schema.load(MotorCalibration, data[name], f"{file}: {name}") for name in names}
    numbers = [motor.id for motor in motors.values()]
    if len(set(numbers)) != len(numbers):
        raise UserError(f"The calibration {file} has the ids {numbers}: each motor needs its own.")
    return motors


@dataclass(frozen=True)
class TickScale:
    """Ticks of one servo as a joint's angle, rad, and back.

    Args:
        middle_ticks: The middle of the calibrated range.
        middle_rad: The middle of the joint's range.
        rad_per_tick: Negative where the servo turns the other way.
        low_ticks: The ends of the calibrated range.
        high_ticks: The ends of the calibrated range.
    """

    middle_ticks: float
    middle_rad: float
    rad_per_tick: float
    low_ticks: int
    high_ticks: int

    def angle(self, ticks: float) -> float:
        """Return the joint's angle, rad."""
        return self.middle_rad + (ticks - self.middle_ticks) * self.rad_per_tick

    def ticks(self, angle_rad: float) -> int:
        """Return the nearest tick to an angle within the calibrated range."""
        wanted = round(self.middle_ticks + (angle_rad - self.middle_rad) / self.rad_per_tick)
        return min(max(wanted, self.low_ticks), self.high_ticks)


def tick_scales(
    motors: Mapping[str, MotorCalibration],
    joints: Sequence[DrivenJoint],
    *,
    turned: Collection[str],
    tolerance_rad: float,
    where: str,
) -> list[TickScale]:
    """Return each joint's scale, after holding its calibrated range against the robot file's.

    Args:
        motors: By joint.
        joints: The robot's, in its file's order.
        turned: Joints whose servo turns the other way.
        tolerance_rad: How far the two ranges may differ in length.
        where: The calibration file, for messages.

    Raises:
        UserError: A joint slides or has no end, or its range differs from the calibrated one; both are named.
    """
    scales = []
    for joint in joints:
        motor = motors[joint.name]
        if joint.type != "revolute":
            raise UserError(
                f"The joint {joint.name} is {joint.type}: servos on a bus move revolute joints with limits."
            )
        calibrated, allowed = (motor.range_max - motor.range_min) * TICK_RAD, joint.upper - joint.lower
        if abs(calibrated - allowed) > tolerance_rad:
            raise UserError(
                f"{where}: {joint.name} was moved through {calibrated:.2f} rad ({motor.range_min} to {motor.range_max}"
                f" of {TICKS} ticks), and the robot file allows {allowed:.2f} rad ({joint.lower:g} to {joint.upper:g}):"
                " calibrate it from stop to stop, or give a robot file with this arm's limits."
            )
        middle = 0.5 * (motor.range_min + motor.range_max)
        sign = -1.0 if joint.name in turned else 1.0
        scales.append(
            TickScale(middle, 0.5 * (joint.lower + joint.upper), sign * TICK_RAD, motor.range_min, motor.range_max)
        )
    return scales
