"""Wheel odometry of differential bases: the pose from how far each wheel has turned, without slip."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec, frames

_LOG = logging.getLogger(__name__)

_MORE = 2.0
"""How much faster than the motors allow a wheel may seem to turn before it counts as a restart of its counter."""


class DifferentialWheels:
    """The two driven wheels of a base.

    Args:
        robot: The base.
        driver: The driver's name, for messages.

    Raises:
        UserError: It is not a differential base with one wheel on each side.
    """

    def __init__(self, robot: RobotSpec, driver: str) -> None:
        base: Any = robot
        if not robot.is_mobile_base or base.drive != "differential" or len(base.wheels) != 2:
            raise UserError(
                f"{robot.name} is not a differential base with two wheels: the driver '{driver}' moves those, such as"
                " turtlebot3_burger."
            )
        self.robot: WheeledBase = base
        sides = [wheel.position_m[1] for wheel in self.robot.wheels]
        self.left, self.right = (0, 1) if sides[0] > 0.0 else (1, 0)
        """Their places in every joint array."""
        self.radius_m = self.robot.wheels[0].radius_m
        self.track_m = abs(sides[0]) + abs(sides[1])
        """Distance between the wheels."""

    def joints(self, left: float, right: float) -> Array:
        """Return a joint array (2,) in the robot file's order."""
        found = np.empty(2)
        found[self.left], found[self.right] = left, right
        return found


class WheelOdometry:
    """The pose of ``base_link`` in ``odom``, which is where it was first, and its velocity.

    Args:
        wheels: The base's wheels.
    """

    def __init__(self, wheels: DifferentialWheels) -> None:
        self._wheels = wheels
        self._track_m = wheels.track_m * wheels.robot.track_scale
        self._fastest_rad_s = _MORE * wheels.robot.wheel_drive.velocity_max_rad_s
        self._place = np.array([wheels.robot.axle_m, 0.0])
        """The middle of the axle."""
        self._yaw = 0.0
        self._turned: Array | None = None
        self._time_s = 0.0

    def signals(self, time_s: float, turned: Array, speeds: Array) -> dict[str, Array]:
        """Return position, orientation, linear_velocity, angular_velocity and the joints' signals.

        Args:
            time_s: When the wheels were measured, s.
            turned: How far each wheel has turned (2,), rad.
            speeds: How fast each turns (2,), rad/s.
        """
        if self._turned is not None:
            self._advance(turned - self._turned, time_s - self._time_s)
        self._turned, self._time_s = turned.copy(), time_s
        wheels, robot = self._wheels, self._wheels.robot
        rolled = wheels.radius_m * speeds
        forward = 0.5 * (rolled[wheels.left] + rolled[wheels.right])
        turn = (rolled[wheels.right] - rolled[wheels.left]) / self._track_m
        ahead = np.array([math.cos(self._yaw), math.sin(self._yaw)])
        x, y = self._place - robot.axle_m * ahead
        return {
            "position": np.array([x, y, robot.rest_height_m]),
            "orientation": frames.from_yaw(self._yaw),
            "linear_velocity": np.array([forward, -turn * robot.axle_m, 0.0]),
            "angular_velocity": np.array([0.0, 0.0, turn]),
            "joint_position": turned.copy(),
            "joint_velocity": speeds.copy(),
        }

    def _advance(self, change: Array, passed_s: float) -> None:
        most = self._fastest_rad_s * max(passed_s, 0.0) + 0.5
        if np.abs(change).max() > most:
            _LOG.warning(
                "A wheel's counter jumped by %.1f rad: the base goes on from where it was.", np.abs(change).max()
            )
            return
        rolled = self._wheels.radius_m * change
        left, right = rolled[self._wheels.left], rolled[self._wheels.right]
        turned, far = (right - left) / self._track_m, 0.5 * (left + right)
        half = 0.5 * turned
        chord = far * (math.sin(half) / half if abs(half) > 1e-9 else 1.0)  # of an arc
        middle = self._yaw + half
        self._place = self._place + chord * np.array([math.cos(middle), math.sin(middle)])
        self._yaw = math.remainder(self._yaw + turned, 2.0 * math.pi)
