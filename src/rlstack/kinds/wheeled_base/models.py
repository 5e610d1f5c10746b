"""Wheeled bases' models, generated from the robot file: a chassis, wheels on hinges, casters."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.mjcf import add_wheeled_base
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.urdf import wheeled_base_urdf
from rlstack.robots.inertia import Inertial, moved, together
from rlstack.robots.kind_models import KindModels
from rlstack.robots.model_check import ModelCheck


class WheeledBaseModels(KindModels[WheeledBase]):
    """See :class:`rlstack.robots.kind_models.KindModels`."""

    add_to_mujoco = staticmethod(add_wheeled_base)
    urdf = staticmethod(wheeled_base_urdf)

    def rest_height(self, robot: WheeledBase) -> float:
        """Return its height on its wheels, m."""
        return robot.rest_height_m

    def inertial(self, robot: WheeledBase) -> Inertial:
        """Return the mass properties of chassis, casters, wheels and steering knuckles together."""
        pieces = [robot.chassis_inertial()]
        for wheel in robot.wheels:
            at = np.array(wheel.position_m)
            pieces.append(moved(robot.wheel_inertial(wheel), np.eye(3), at))
            if wheel.steering:
                pieces.append(moved(robot.knuckle_inertial(), np.eye(3), at))
        return together(pieces)

    def check_joints(self, compare: ModelCheck) -> None:
        """Compare joints with their limits, and positions and axes of the wheels."""
        super().check_joints(compare)
        robot: Any = compare.robot
        for wheel in robot.wheels:
            compare.place(f"joint '{wheel.name}'", compare.joints[wheel.name].position, wheel.position_m)
            compare.axis(wheel.name, (0.0, 1.0, 0.0))
            if wheel.steering:
                compare.axis(wheel.steering, (0.0, 0.0, 1.0))


MODELS = WheeledBaseModels()
