"""Arms on the robot node's topics: joint states out, targets of joints by name in; none of them means "stop"."""

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
from rlstack.nodes.parameters import ParameterSet
from rlstack.nodes.robot_kind import Filler
from rlstack.robots import frames
from rlstack.sim.robot import SimulatedRobot

_TARGET = "joint_target"


class ManipulatorOnTopics:
    """See :class:`rlstack.nodes.robot_kind.Kind`."""

    observed = topics.JOINT_STATES
    command_topic = topics.JOINT_COMMAND

    def __init__(self, robot: Manipulator, parameters: ParameterSet) -> None:
        self._robot = robot
        self.timeout_s: float = parameters["cmd_joints_timeout_s"]
        self._names = tuple(joint.name for joint in robot.drives)
        self._read = TrajectoryReader(self._names, plain=parameters["cmd_joints_type"] == "Float64MultiArray")
        self.command_type = self._read.type

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return targets (joints,), rad or m, in the file's order."""
        stamp, command = self._read(data)
        return stamp, command if len(command[_TARGET]) else {}

    def moves(self, command: Signals) -> bool:
        """Return true: an arm that holds something goes on only while somebody answers for it."""
        return True

    def joint_states(self) -> tuple[str, Filler]:
        """Return positions and velocities of the joints, the arm's before the gripper's."""
        joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), self._names)
        return "joint_position", lambda stamp, s: joints.fill(stamp, s["joint_position"], s["joint_velocity"])

    def pose(self, backend: Backend, sensed: Signals) -> tuple[Array, Array]:
        """Return where it stands: at the origin of ``odom``, or where a simulation of several has put it."""
        if isinstance(backend, SimulatedRobot):
            motion = backend.simulation.motion(backend.index)
            return motion["position"], motion["orientation"]
        return np.zeros(3), frames.from_yaw(0.0)

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return where the joints are, rad or m."""
        return dict(zip(self._names, sensed["joint_position"].tolist()))

    def speeds(self, sensed: Signals) -> Mapping[str, float]:
        """Return nothing: positions are sensed."""
        return {}

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return none: it starts at rest."""
        if height_m:
            raise UserError(f"start_height_m: {height_m} is not allowed for {self._robot.name}, which stands fixed.")
        return None


TOPICS = ManipulatorOnTopics
