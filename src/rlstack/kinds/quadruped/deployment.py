"""How a quadruped is deployed: its goal is where it stands."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.bringup.deployment import Deployment, checked_point
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.kinds.quadruped.spec import Quadruped


class QuadrupedDeployment(Deployment):
    """See :class:`rlstack.bringup.deployment.Deployment`."""

    VERBS = ("walk", "Stood")
    AFTER_POLICY = "the guard stands the robot up and then crouches"
    robot: Quadruped

    def goals(self, group: RobotGroup, goal: Sequence[float] | None) -> list[Point]:
        """Return the given goal, or the standing height above each start."""
        return group.goals(checked_point((0.0, 0.0, self.robot.standing_height_m) if goal is None else goal))


DEPLOYMENT = QuadrupedDeployment
