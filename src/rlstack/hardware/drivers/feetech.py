"""Arms of Feetech's STS bus servos, such as SO-100 and SO-101: ``serial:///dev/ttyACM0?calibration=FILE``."""

from __future__ import annotations

from rlstack.hardware.servos.arm import ServoArm
from rlstack.hardware.servos.kinds import FEETECH


class FeetechArm(ServoArm):
    """See :class:`rlstack.hardware.servos.arm.ServoArm`. The servos hold their last goal when the bus falls silent."""

    NAME, KIND = "feetech", FEETECH


BACKEND = FeetechArm
