"""Deployment of a quadruped."""

from __future__ import annotations

from rlstack.bringup.kind_deployment import KindDeployment, Timeouts
from rlstack.bringup.robot_group import Point
from rlstack.kinds.quadruped.spec import Quadruped

HELD_S = 0.5
"""Time without a command after which the robot node switches the legs off, s."""


class QuadrupedDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    VERBS = ("walk", "Stood")
    AFTER_POLICY = "the guard stands the robot up and then crouches"
    robot: Quadruped

    def timeouts(self, rate_hz: float | None) -> Timeouts:
        """Return :data:`HELD_S` for the robot node: joints that hold their last targets are safer than limp legs."""
        return Timeouts(robot={"command_timeout_periods": HELD_S * self.robot.control_rate_hz})

    @property
    def default_goal_m(self) -> Point:
        """The standing height above each start."""
        return 0.0, 0.0, self.robot.standing_height_m


DEPLOYMENT = QuadrupedDeployment
