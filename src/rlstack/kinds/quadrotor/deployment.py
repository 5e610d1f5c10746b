"""Deployment of a quadrotor."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rlstack.bringup.goal_steps import GoalStep
from rlstack.bringup.kind_deployment import DeployedNode, DeployOptions, KindDeployment, PolicyPorts
from rlstack.bringup.node_process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces.backend import Signals
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.perception.odometry_filter import FLOW, POSE
from rlstack.robots.frames import tilt

HOVER_S, ARRIVES_S = 6.0, 2.0
"""Time of a hover that counts, and of its begin that does not, in which a step of a metre or two is over."""

_MOVES = ("across", "up", "turn", "across turn", "across up turn")
"""Families of steps that excite: what changes in a step."""
_SETTLES_S = 1.5
"""Time of the hovers before and after them."""
_WITHIN, _LOWEST_M = 0.8, 0.3
"""Share of the limits that a rehearsal may use, since the robot is not quite its file; and its least height."""


class QuadrotorDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    VERBS = ("fly", "Flew")
    TAKES = frozenset({"goal_yaw_rad", "start_height_m", "odometry"})
    AFTER_POLICY = "the guard flies its fallback and then lands"
    EXCITES = True
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
        low, high = self._box()
        home, steps = self.default_goal_m, []

        def hover(at_s: float, place: Point) -> None:
            steps.append(GoalStep(at_s, place, 0.0, ARRIVES_S))

        hover(0.0, home)
        at_s = HOVER_S
        while at_s < seconds - 2.0 * HOVER_S:
            x, y = rng.uniform(low, high)
            place = float(x), float(y), home[2] * float(rng.uniform(0.8, 1.7))
            steps.append(GoalStep(at_s, place, float(rng.uniform(-2.5, 2.5))))
            at_s += float(rng.uniform(0.8, 2.0))
        hover(max(seconds - 2.0 * HOVER_S, HOVER_S), (0.5 * float(high[0]), 0.5 * float(low[1]), home[2]))
        hover(max(seconds - HOVER_S, 2.0 * HOVER_S), home)
        return steps

    def exciting_goals(self, seconds: float, rng: np.random.Generator) -> list[GoalStep]:
        """Return steps across, up, in heading and in all of them, in shares and at a pace of their own each time."""
        low, high = self._box()
        home, steps = np.array(self.default_goal_m), [GoalStep(0.0, self.default_goal_m, 0.0)]
        shares, pace = rng.dirichlet(np.full(len(_MOVES), 0.7)), rng.uniform(0.4, 1.6)
        place, yaw, at_s = home.copy(), 0.0, _SETTLES_S
        while at_s < seconds - _SETTLES_S:
            move = _MOVES[rng.choice(len(_MOVES), p=shares)]
            if "across" in move:
                place[:2] = rng.uniform(low, high)
            if "up" in move:
                place[2] = home[2] * rng.uniform(0.8, 1.7)
            if "turn" in move:
                yaw = float(rng.uniform(-2.5, 2.5))
            steps.append(GoalStep(at_s, (float(place[0]), float(place[1]), float(place[2])), yaw))
            at_s += float(pace * rng.uniform(0.7, 1.3))
        return [*steps, GoalStep(seconds - _SETTLES_S, self.default_goal_m, 0.0)]

    def rehearsal_start(self) -> dict[str, ArrayLike]:
        """Return a hover at the default goal."""
        spin = np.full(len(self.robot.rotors), self.robot.hover_speed_rad_s)
        return {"position": self.default_goal_m, "rotor_speed": spin}

    def is_safe(self, signals: Signals) -> bool:
        """Return whether tilt and speed are within 80% of the limits, and the place is inside the fence."""
        limits, place = self.robot.limits, np.asarray(signals["position"])
        inside = (place > limits.geofence_min_m).all() and (place < limits.geofence_max_m).all()
        slow = np.linalg.norm(signals["linear_velocity"]) < _WITHIN * limits.linear_velocity_m_s
        turns = np.linalg.norm(signals["angular_velocity"]) < _WITHIN * limits.angular_velocity_rad_s
        upright = tilt(np.asarray(signals["orientation"])) < _WITHIN * limits.tilt_rad
        return bool(inside and place[2] > _LOWEST_M and slow and turns and upright)

    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners (2,) of the square of goals that step, m: a metre from the origin, within the fence."""
        limits = self.robot.limits
        return np.clip(limits.geofence_min_m[:2], -1.0, 1.0), np.clip(limits.geofence_max_m[:2], -1.0, 1.0)

    @property
    def extent_m(self) -> float:
        """The diameter of its collision sphere, m."""
        return 2.0 * self.robot.body.collision_radius_m


DEPLOYMENT = QuadrotorDeployment
