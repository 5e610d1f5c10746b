"""Arms of Dynamixel X servos (protocol 2): ``serial:///dev/ttyUSB0?calibration=FILE``."""

from __future__ import annotations

from rlstack.hardware.servos.arm import ServoArm
from rlstack.hardware.servos.kinds import DYNAMIXEL


class DynamixelArm(ServoArm):
    """See :class:`rlstack.hardware.servos.arm.ServoArm`. These servos stop by themselves when the bus falls silent."""

    NAME, KIND = "dynamixel", DYNAMIXEL


BACKEND = DynamixelArm
