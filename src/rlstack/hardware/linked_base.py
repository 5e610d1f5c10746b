"""A differential base at the end of a serial link; see :class:`rlstack.hardware.linked_robot.LinkedRobot`."""

from __future__ import annotations

import time

import numpy as np

from rlstack.arrays import Array
from rlstack.hardware.captures import Captures
from rlstack.hardware.linked_robot import LinkedRobot
from rlstack.hardware.wheel_odometry import DifferentialWheels, WheelOdometry
from rlstack.interfaces.backend import Signals
from rlstack.kinds.wheeled_base.simulation_kinematics import base_twist, wheel_speeds
from rlstack.robots import RobotSpec

ODOMETRY = (
    "position",
    "orientation",
    "linear_velocity",
    "angular_velocity",
    "joint_position",
    "joint_velocity",
)
"""Signals of every such base."""


class LinkedBase(LinkedRobot):
    """One base. A twist counts for the robot file's ``command_timeout_s``; then the driver stops the base once.

    Args:
        robot: The robot.
        rate_hz: How often it is polled.
        captures: Its lidar and camera.

    Raises:
        UserError: It is not a differential base with two wheels.
    """

    commanded = ("twist",)
    _size = 2
    _twist_step = np.zeros(2)
    """Smallest difference of commands that the base knows, m/s and rad/s; 0: any."""

    def __init__(self, robot: RobotSpec, rate_hz: float, captures: Captures) -> None:
        wheels = DifferentialWheels(robot, self.NAME)
        super().__init__(robot, rate_hz, captures)
        self._base, self._wheels = wheels.robot, wheels
        self._odometry = WheelOdometry(wheels)
        self._told_s: float | None = None
        """When the last command was handed over, by ``time.monotonic``; None: the base was told to stand."""

    def write(self, command: Signals) -> Signals:
        """See :meth:`rlstack.hardware.linked_robot.LinkedRobot.write`."""
        sent = super().write(command)
        self._told_s = time.monotonic()
        return sent

    def _limited(self, command: Array) -> Array:
        limited = base_twist(self._base, wheel_speeds(self._base, command))
        step = np.where(self._twist_step > 0.0, self._twist_step, 1.0)
        return np.where(self._twist_step > 0.0, np.round(limited / step) * step, limited)

    def _tick(self) -> None:
        """Stop a base whose commands have ceased."""
        if self._told_s is not None and time.monotonic() - self._told_s > self._base.limits.command_timeout_s:
            self._told_s = None
            if self.powered:
                self._send(np.zeros(2))
