"""Deployment of a quadruped."""

from __future__ import annotations

from rlstack.bringup.kind_deployment import KindDeployment
from rlstack.bringup.robot_group import Point
from rlstack.kinds.quadruped.spec import Quadruped


class QuadrupedDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    VERBS = ("walk", "Stood")
    AFTER_POLICY = "the guard stands the robot up and then crouches"
    robot: Quadruped

    @property
    def default_goal_m(self) -> Point:
        """The standing height above each start."""
        return 0.0, 0.0, self.robot.standing_height_m


DEPLOYMENT = QuadrupedDeployment
