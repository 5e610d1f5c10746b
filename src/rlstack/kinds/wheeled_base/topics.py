"""Wheeled bases on the robot node's topics: twists, which expire and then stop the base."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Signals
from rlstack.interfaces.messages import JointMessage
from rlstack.interfaces.twist_data import TwistReader
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.topics_guard import PARAMETERS as GUARD_PARAMETERS
from rlstack.kinds.wheeled_base.topics_guard import ScanSenses
from rlstack.nodes.commands import TWIST_TYPE, without_stamps
from rlstack.nodes.kind_topics import Filler, KindTopics
from rlstack.nodes.parameters import ParameterSet
from rlstack.robots import frames


class WheeledBaseTopics(KindTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    PARAMETERS = (TWIST_TYPE,)
    GUARD_PARAMETERS = (*GUARD_PARAMETERS, TWIST_TYPE)
    GUARD_SENSES = ScanSenses
    COMMAND_TYPE = TWIST_TYPE
    observed = topics.ODOM
    command_topic = topics.TWIST_COMMAND

    def __init__(self, robot: WheeledBase, parameters: ParameterSet) -> None:
        robot.require_simulable()
        self._robot = robot
        self._read = TwistReader(plain=without_stamps(TWIST_TYPE, parameters))
        self.command_type = self._read.type
        self.timeout_s = robot.limits.command_timeout_s
        self._names = tuple(joint.name for joint in robot.drives)

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return the twist (2,), m/s and rad/s."""
        return self._read(data)

    def moves(self, command: Signals) -> bool:
        """Return whether the command drives or turns."""
        return bool(command["twist"].any())

    def joint_states(self) -> tuple[str, Filler]:
        """Return positions and velocities of wheels and steering joints."""
        joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), self._names)
        return "joint_position", lambda stamp, s: joints.fill(stamp, s["joint_position"], s["joint_velocity"])

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return angles of wheels and steering joints, rad."""
        positions = sensed.get("joint_position")
        return {} if positions is None else dict(zip(self._names, positions.tolist()))

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return the start pose in the world's map; None without one: on its wheels at its place."""
        if height_m:
            raise UserError(
                f"start_height_m: {height_m} is not allowed for {self._robot.name}, which starts on its wheels: leave"
                " it out."
            )
        from rlstack.sim.robot import SimulatedRobot  # a guard, which reads the parameters here, needs no simulator

        if not isinstance(backend, SimulatedRobot) or backend.index:
            return None
        simulation = backend.simulation
        drawn = None if simulation.world is None else simulation.world.floor_map
        if drawn is None or not np.array_equal(simulation.starts_m[0][:2], drawn.start[:2]):
            return None
        place = simulation.starts_m[0] + np.array([0.0, 0.0, self._robot.rest_height_m])
        return {"position": place, "orientation": frames.from_yaw(drawn.start[2])}


TOPICS = WheeledBaseTopics
