"""Wheeled bases' models, generated from the robot file: a chassis, wheels on hinges, casters."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.mjcf import add_wheeled_base
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.urdf import wheeled_base_urdf
from rlstack.robots.inertia import Inertial, moved, together
from rlstack.robots.model_check import ModelCheck
from rlstack.robots.robot_models import RobotModels, UrdfOptions


class WheeledBaseModels(RobotModels[WheeledBase]):
    """See :class:`rlstack.robots.robot_models.RobotModels`."""

    def rest_height(self, robot: WheeledBase) -> float:
        """Return its height on its wheels, m."""
        return robot.rest_height_m

    def add_to_mujoco(self, spec: Any, robot: WheeledBase, prefix: str, timestep_s: float) -> Any:
        """Add the robot: a wheel's control is its speed, a steering joint's its angle."""
        return add_wheeled_base(spec, robot, prefix, timestep_s)

    def urdf(self, robot: WheeledBase, options: UrdfOptions) -> ET.Element:
        """Return chassis, casters and wheels."""
        return wheeled_base_urdf(robot, options.prefix)

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
