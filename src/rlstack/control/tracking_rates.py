"""A geometric controller for N quadrotors at once that take body rates and collective thrust.

The laws of :mod:`rlstack.control.hover`, which flies one robot: errors of position and velocity give the wanted thrust,
and its direction and the heading give the rates that turn the body there. The rates are the autopilot's to follow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlstack.arrays import Array
from rlstack.control.hover import LONGEST_STEP_S, HoverGains
from rlstack.control.reference_trajectory import Reference
from rlstack.control.tracking import bounded, feasible, integrated, widest_tilt
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames


class RatesTrackingController:
    """Flies to references and holds them through an autopilot's rate loop; keeps an integral between calls.

    Args:
        robot: The robot, with a rate loop.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: HoverGains | None = None) -> None:
        assert robot.rate_loop is not None
        fast = HoverGains.for_robot(robot, speed_m_s=0.5 * robot.limits.linear_velocity_m_s)
        self.robot, self.gains = robot, gains or replace(fast, tilt_rad=widest_tilt(robot))
        self._most_rad_s = np.array(robot.rate_loop.rates_max_rad_s)
        self.reset()

    def reset(self, count: int = 1) -> None:
        """Reset the state of ``count`` robots."""
        self._integral = np.zeros((count, 3))

    def command(
        self,
        position: Array,
        orientation: Array,
        linear_velocity_world: Array,
        angular_velocity: Array,
        reference: Reference,
        dt: float,
    ) -> Array:
        """Return rates and thrust (N, 4) in rad/s and m/s^2, within the robot's range.

        Args as for :meth:`rlstack.control.tracking.TrackingController.command`.
        """
        gains, top = self.gains, self.robot.thrust_max_m_s2
        closing = bounded(gains.position_per_s * (reference.position - position), gains.speed_m_s)
        pull = gains.velocity_per_s * (closing + reference.velocity - linear_velocity_world)
        wanted, granted = feasible(pull + self._integral + reference.acceleration, gains.tilt_rad, top)
        growth = gains.integral_per_s * min(dt, LONGEST_STEP_S) * pull
        self._integral = integrated(self._integral, growth, pull, gains.integral_m_s2, granted)
        aim = frames.rotate_inverse(orientation, wanted)
        rates = self._rates(aim, orientation, reference.yaw)
        thrust = np.clip(aim[:, 2], 0.0, top)
        return np.column_stack((np.clip(rates, -self._most_rad_s, self._most_rad_s), thrust))

    def _rates(self, aim: Array, orientation: Array, yaw: Array) -> Array:
        """Return rates (N, 3) that turn the body's z axis to ``aim`` (N, 3), body frame, and its heading to ``yaw``."""
        gains = self.gains
        across = np.hypot(aim[:, 0], aim[:, 1])
        angle = np.arctan2(across, aim[:, 2])
        share = angle / np.maximum(across, 1e-9)
        level = across > 1e-9
        tilt = np.column_stack((np.where(level, -aim[:, 1] * share, angle), np.where(level, aim[:, 0] * share, 0.0)))
        turn = bounded(gains.tilt_per_s * tilt, gains.tilt_rate_rad_s)
        # The heading of a body on its side is undefined: its error fades with the tilt.
        upright = np.maximum(np.cos(frames.tilt(orientation)), 0.0)
        heading = gains.yaw_per_s * frames.wrap_angle(yaw - frames.yaw(orientation)) * upright
        return np.column_stack((turn, np.clip(heading, -gains.yaw_rate_rad_s, gains.yaw_rate_rad_s)))
