"""Manipulators on the robot node's topics: joint states out, named joint targets in; an empty command means "stop"."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Signals
from rlstack.interfaces.messages import JointMessage
from rlstack.interfaces.trajectory_data import TrajectoryReader
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.manipulator.topics_guard import PARAMETERS as GUARD_PARAMETERS
from rlstack.nodes.commands import JOINTS_TYPE, without_stamps
from rlstack.nodes.kind_topics import Filler, KindTopics, simulated_pose
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.robots import frames

_TARGET = "joint_target"


class ManipulatorTopics(KindTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    PARAMETERS = (
        JOINTS_TYPE,
        Parameter(
            "cmd_joints_timeout_s",
            0.25,
            "Age from which a command stops an arm, s: twice what its guard lets a policy be silent.",
            minimum=0.001,
        ),
    )
    GUARD_PARAMETERS = (*GUARD_PARAMETERS, JOINTS_TYPE)
    COMMAND_TYPE = JOINTS_TYPE
    TELEOPERATED = True
    observed = topics.JOINT_STATES
    command_topic = topics.JOINT_COMMAND

    def __init__(self, robot: Manipulator, parameters: ParameterSet) -> None:
        self._robot = robot
        self.timeout_s: float = parameters["cmd_joints_timeout_s"]
        self._names = tuple(joint.name for joint in robot.drives)
        self._read = TrajectoryReader(self._names, plain=without_stamps(JOINTS_TYPE, parameters))
        self.command_type = self._read.type

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return targets (joints,), rad or m, in the file's order."""
        stamp, command = self._read(data)
        return stamp, command if len(command[_TARGET]) else {}

    def joint_states(self) -> tuple[str, Filler]:
        """Return positions and velocities of the joints, the arm's before the gripper's."""
        joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), self._names)
        return "joint_position", lambda stamp, s: joints.fill(stamp, s["joint_position"], s["joint_velocity"])

    def pose(self, backend: Backend, sensed: Signals) -> tuple[Array, Array]:
        """Return the base's pose: the origin of ``odom``, or its place in a simulation of several robots."""
        return simulated_pose(backend) or (np.zeros(3), frames.from_yaw(0.0))

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return joint positions, rad or m."""
        return dict(zip(self._names, sensed["joint_position"].tolist()))

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return None: it starts at rest."""
        if height_m:
            raise UserError(f"start_height_m: {height_m} is not allowed for {self._robot.name}, which stands fixed.")
        return None


TOPICS = ManipulatorTopics
