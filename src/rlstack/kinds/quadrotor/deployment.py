"""Deployment of a quadrotor."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.bringup.deployment import Deployment, checked_point, widened_fence
from rlstack.bringup.process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.kinds.quadrotor.spec import Quadrotor

HOVER_AT_M = (0.0, 0.0, 1.0)
"""Default goal of a quadrotor, m."""


class QuadrotorDeployment(Deployment):
    """See :class:`rlstack.bringup.deployment.Deployment`."""

    VERBS = ("fly", "Flew")
    TAKES = frozenset({"goal_yaw_rad", "start_height_m"})
    AFTER_POLICY = "the guard flies its fallback and then lands"
    robot: Quadrotor

    def goals(self, group: RobotGroup, goal: Sequence[float] | None) -> list[Point]:
        """Return the given goal, or 1 m above each start."""
        return group.goals(checked_point(HOVER_AT_M if goal is None else goal))

    def fence(self, world: tuple[Point, Point] | None) -> dict[str, Parameter]:
        """Return a geofence that encloses the world."""
        return widened_fence(self.robot.limits, world)

    @property
    def extent_m(self) -> float:
        """The diameter of its collision sphere, m."""
        return 2.0 * self.robot.body.collision_radius_m


DEPLOYMENT = QuadrotorDeployment
