"""Deployment of an arm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.bringup.kind_deployment import KindDeployment, Timeouts, checked_point
from rlstack.bringup.node_process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion

_STALENESS_PERIODS, _WINDOW_PERIODS = 2.5, 1.2
"""Periods of a policy: its longest silence, and the time whose motion one target may cover at once."""
_ROBOT_WAITS = 2.0
"""Multiple of a policy's longest silence after which the robot node stops, so that the guard acts first."""


class ManipulatorDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    TAKES = frozenset({"cmd_joints_type"})
    AFTER_POLICY = "the guard holds the arm and then parks it"
    robot: Manipulator

    def goals(self, group: RobotGroup, goal: Sequence[float] | None) -> list[Point]:
        """Return the given goal, m in each arm's ``base_link``, or the tool's position at rest."""
        arm = self.robot
        if goal is None:
            chain = chain_of(arm)
            rest = np.array([arm.drives[k].rest for k in chain.index])
            place = checked_point(tool_motion(chain.screws, rest[None]).position[0].tolist())
        else:
            place = checked_point(goal)
        return [place] * len(group.namespaces)

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


DEPLOYMENT = ManipulatorDeployment
