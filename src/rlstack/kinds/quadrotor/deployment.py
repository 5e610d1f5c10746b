"""Deployment of a quadrotor."""

from __future__ import annotations

import numpy as np

from rlstack.bringup.goal_steps import GoalStep
from rlstack.bringup.kind_deployment import DeployedNode, DeployOptions, KindDeployment, PolicyPorts
from rlstack.bringup.node_process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.errors import UserError, unknown_name
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.perception.odometry_filter import FLOW, POSE

HOVER_S, ARRIVES_S = 6.0, 2.0
"""Time of a hover that counts, and of its begin that does not, in which a step of a metre or two is over."""


class QuadrotorDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    VERBS = ("fly", "Flew")
    TAKES = frozenset({"goal_yaw_rad", "start_height_m", "odometry"})
    AFTER_POLICY = "the guard flies its fallback and then lands"
    robot: Quadrotor

    @property
    def default_goal_m(self) -> Point:
        """1 m above each start."""
        return 0.0, 0.0, 1.0

    def simulated_sensors(self, options: DeployOptions, group: RobotGroup) -> dict[str, Parameter]:
        """Return which sensors the odometry node gets from the simulator."""
        if not options.odometry or not group.simulated:
            return {}
        if len(group.namespaces) > 1:
            raise UserError("odometry: several simulated robots publish their own: leave it out, or start one robot.")
        return {"simulated_tracking": options.odometry}

    def helpers(self, ports: PolicyPorts | None, options: DeployOptions, lock_step: bool) -> list[DeployedNode]:
        """Return the odometry node, if it is asked for.

        Raises:
            UserError: It is asked for in lock step, or from an unknown source.
        """
        if not options.odometry:
            return []
        if options.odometry not in (POSE, FLOW):
            raise unknown_name("source of odometry", options.odometry, (POSE, FLOW))
        if lock_step:
            raise UserError("odometry: late measurements need time that goes on: leave lock step out.")
        noise: dict[str, Parameter] = {"rate_hz": self.robot.control_rate_hz}
        if imu := self.robot.sensors.get("imu"):
            noise["imu_hz"] = imu.rate_hz
        why = "there is no odometry any more, and the guard switches the motors off"
        return [DeployedNode("odometry", {"source": options.odometry, **noise}, why, waits=False)]

    def goal_steps(self, seconds: float, seed: int) -> list[GoalStep]:
        """Return two places to hover at, and between them steps in place and heading every second or two."""
        rng = np.random.default_rng([seed, 1])
        limits = self.robot.limits
        low, high = np.clip(limits.geofence_min_m, -1.0, 1.0), np.clip(limits.geofence_max_m, -1.0, 1.0)
        home, steps = self.default_goal_m, []

        def hover(at_s: float, place: Point) -> None:
            steps.append(GoalStep(at_s, place, 0.0, ARRIVES_S))

        hover(0.0, home)
        at_s = HOVER_S
        while at_s < seconds - 2.0 * HOVER_S:
            x, y = rng.uniform(low[:2], high[:2])
            place = float(x), float(y), home[2] * float(rng.uniform(0.8, 1.7))
            steps.append(GoalStep(at_s, place, float(rng.uniform(-2.5, 2.5))))
            at_s += float(rng.uniform(0.8, 2.0))
        hover(max(seconds - 2.0 * HOVER_S, HOVER_S), (0.5 * float(high[0]), 0.5 * float(low[1]), home[2]))
        hover(max(seconds - HOVER_S, 2.0 * HOVER_S), home)
        return steps

    @property
    def extent_m(self) -> float:
        """The diameter of its collision sphere, m."""
        return 2.0 * self.robot.body.collision_radius_m


DEPLOYMENT = QuadrotorDeployment
