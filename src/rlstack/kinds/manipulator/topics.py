"""Manipulators on the robot node's topics: joint states out, named joint targets in."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Signals
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.nodes.command_messages import JOINTS_TYPE
from rlstack.nodes.goal_topics import GoalPoint
from rlstack.nodes.kind_topics import JointTargetTopics, simulated
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.robots import frames
from rlstack.robots.kinematics import chain_of, tool_motion

_TOLERANCE_M = 0.02
"""Distance at which a goal is reached: what the tasks of arms count as success."""


class ManipulatorTopics(JointTargetTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    PARAMETERS = (
        JOINTS_TYPE,
        Parameter(
            "cmd_joints_timeout_s",
            0.25,
            "Age at which a command stops an arm, s: twice what its guard lets a policy be silent.",
            minimum=0.001,
        ),
    )
    GUARD_PARAMETERS = (JOINTS_TYPE,)
    COMMAND_TYPE = JOINTS_TYPE
    TELEOPERATED = True
    observed = topics.JOINT_STATES

    def __init__(self, robot: Manipulator, parameters: ParameterSet) -> None:
        super().__init__(robot, parameters)
        self.timeout_s: float = parameters["cmd_joints_timeout_s"]

    @classmethod
    def goal_point(cls, robot: Manipulator, inputs: Collection[str]) -> GoalPoint:
        """Return the object that the policy handles, or else the tool."""
        if "object_position" in inputs:
            return GoalPoint(lambda signals: signals.get("object_position"), tolerance_m=_TOLERANCE_M)
        chain = chain_of(robot)
        index = list(chain.index)

        def tool(signals: Signals) -> Array | None:
            joints = signals.get("joint_position")
            return None if joints is None else np.asarray(tool_motion(chain.screws, joints[None, index]).position[0])

        return GoalPoint(tool, tolerance_m=_TOLERANCE_M)

    def pose(self, backend: Backend, sensed: Signals) -> tuple[Array, Array]:
        """Return the base's pose: the origin of ``odom``, or its place in a simulation of several robots."""
        if (robot := simulated(backend)) is None:
            return np.zeros(3), frames.from_yaw(0.0)
        motion = robot.simulation.motion(robot.index)
        return motion["position"], motion["orientation"]


TOPICS = ManipulatorTopics
