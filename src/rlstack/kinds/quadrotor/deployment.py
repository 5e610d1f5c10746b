"""Deployment of a quadrotor."""

from __future__ import annotations

from rlstack.bringup.kind_deployment import KindDeployment
from rlstack.bringup.robot_group import Point
from rlstack.kinds.quadrotor.spec import Quadrotor


class QuadrotorDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    VERBS = ("fly", "Flew")
    TAKES = frozenset({"goal_yaw_rad", "start_height_m"})
    AFTER_POLICY = "the guard flies its fallback and then lands"
    robot: Quadrotor

    @property
    def default_goal_m(self) -> Point:
        """1 m above each start."""
        return 0.0, 0.0, 1.0

    @property
    def extent_m(self) -> float:
        """The diameter of its collision sphere, m."""
        return 2.0 * self.robot.body.collision_radius_m


DEPLOYMENT = QuadrotorDeployment
