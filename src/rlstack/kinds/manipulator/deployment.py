"""Deployment of an arm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.bringup.goal_steps import GoalStep
from rlstack.bringup.kind_deployment import KindDeployment, Timeouts, checked_point
from rlstack.bringup.node_process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.interfaces.backend import Signals
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion

_STALENESS_PERIODS, _WINDOW_PERIODS = 2.5, 1.2
"""Periods of a policy: its longest silence, and the time whose motion one target may cover at once."""
_ROBOT_WAITS = 2.0
"""Multiple of a policy's longest silence after which the robot node stops, so that the guard acts first."""


_AROUND_M = np.array([0.15, 0.25, 0.15])
"""Reach of steps that excite about the tool's place at rest, if the robot file has no work area."""
_WITHIN, _CLEAR_M = 0.8, 0.05
"""Share of a work area that they use, and distance from the workspace's ends."""
_SETTLES_S = 1.0
"""Time before and after them."""


class ManipulatorDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    TAKES = frozenset({"cmd_joints_type"})
    AFTER_POLICY = "the guard holds the arm and then parks it"
    EXCITES = True
    robot: Manipulator

    def goals(self, group: RobotGroup, goal: Sequence[float] | None) -> list[Point]:
        """Return the given goal, m in each arm's ``base_link``, or the tool's position at rest."""
        place = self._tool_at_rest() if goal is None else checked_point(goal)
        return [place] * len(group.namespaces)

    def exciting_goals(self, seconds: float, rng: np.random.Generator) -> list[GoalStep]:
        """Return places of the tool about its place at rest, which step far or near, at a pace of their own."""
        arm, middle = self.robot, np.array(self._tool_at_rest())
        low, high = middle - _AROUND_M, middle + _AROUND_M
        if arm.work is not None:
            corners = np.array([arm.work.x_m, arm.work.y_m, arm.work.z_m])
            low, high = corners.mean(axis=1) + _WITHIN * 0.5 * np.diff(corners).ravel() * [[-1.0], [1.0]]
        inner = np.array([arm.limits.workspace_min_m, arm.limits.workspace_max_m])
        low, high = np.maximum(low, inner[0] + _CLEAR_M), np.minimum(high, inner[1] - _CLEAR_M)
        pace, far = float(rng.uniform(0.4, 1.6)), float(rng.uniform(0.4, 1.0))
        place, at_s, steps = np.clip(middle, low, high), _SETTLES_S, [_step(0.0, middle)]
        while at_s < seconds - _SETTLES_S:
            place = np.clip(place + far * (rng.uniform(low, high) - place), low, high)
            steps.append(_step(at_s, place))
            at_s += pace * float(rng.uniform(0.7, 1.3))
        return [*steps, _step(seconds - _SETTLES_S, middle)]

    def is_safe(self, signals: Signals) -> bool:
        """Return whether the arm's joints are within their ranges and speeds, without the gripper's."""
        arm = ~np.array(self.robot.gripping)
        drives = [drive for drive, counts in zip(self.robot.drives, arm) if counts]
        place, speed = (np.asarray(signals[name])[arm] for name in ("joint_position", "joint_velocity"))
        ends = np.array([(drive.lower, drive.upper) for drive in drives]).T
        slow = np.abs(speed) < [drive.velocity_max for drive in drives]
        return bool(slow.all() and (place > ends[0]).all() and (place < ends[1]).all())

    def _tool_at_rest(self) -> Point:
        """Return the tool's place, m, in ``base_link`` where all joints are at rest."""
        chain = chain_of(self.robot)
        rest = np.array([self.robot.drives[k].rest for k in chain.index])
        return checked_point(tool_motion(chain.screws, rest[None]).position[0].tolist())

    def timeouts(self, rate_hz: float | None) -> Timeouts:
        """Return longer timeouts for policies slower than 20 Hz."""
        if rate_hz is None:
            return Timeouts()
        needed = {"staleness_s": _STALENESS_PERIODS / rate_hz, "window_s": _WINDOW_PERIODS / rate_hz}
        guard: dict[str, Parameter] = {
            name: time_s for name, time_s in needed.items() if time_s > getattr(ManipulatorGuardConfig, name) + 1e-9
        }
        robot_s = _ROBOT_WAITS * needed["staleness_s"]
        return Timeouts(guard, {"cmd_joints_timeout_s": robot_s} if "staleness_s" in guard else {})


def _step(at_s: float, place: np.ndarray) -> GoalStep:
    return GoalStep(at_s, checked_point(place.tolist()), 0.0)


DEPLOYMENT = ManipulatorDeployment
