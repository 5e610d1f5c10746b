"""The classical hover controller of quadrotors that take body rates and collective thrust."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.control.hover import HoverGains, HoverLaw, Vector
from rlstack.kinds.quadrotor.spec import Quadrotor


class RatesHoverController(HoverLaw):
    """Flies to a goal and holds it through an autopilot's rate loop; keeps an integral between calls.

    Args:
        robot: The robot, with a rate loop.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: HoverGains | None = None) -> None:
        super().__init__(robot, gains)
        assert robot.rate_loop is not None
        self._most = np.array(robot.rate_loop.rates_max_rad_s)

    def command(
        self,
        position: Vector,
        orientation: Vector,
        linear_velocity_world: Vector,
        angular_velocity: Vector,
        goal_position: Vector,
        goal_yaw: float,
        dt: float,
        goal_velocity: Vector = (0.0, 0.0, 0.0),
    ) -> Array:
        """Return rates and thrust (4,) in rad/s and m/s^2, finite and within the robot's range for any finite input.

        Args as for :meth:`rlstack.control.hover.HoverController.command`.
        """
        aim = self._aim(position, orientation, linear_velocity_world, goal_position, goal_yaw, dt, goal_velocity)
        rates = np.clip(self._rates(aim), -self._most, self._most)
        return np.array([*rates, min(max(aim.up, 0.0), self.robot.thrust_max_m_s2)])
