"""Quadrotors on the robot node's topics: named rotor speeds; an empty command means "off"."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Signals
from rlstack.interfaces.messages import RotorMessage
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import COMMANDED
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.nodes.kind_topics import Filler, KindTopics, simulated
from rlstack.nodes.parameters import ParameterSet

_SPEED = "rotor_speed"


class QuadrotorTopics(KindTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    observed = topics.ODOM
    command_topic = topics.ROTOR_COMMAND

    def __init__(self, robot: Quadrotor, parameters: ParameterSet) -> None:
        super().__init__(robot, parameters)
        self.command_type = topics.type_of(topics.ROTOR_COMMAND)
        self._read = SignalReader(self.command_type, {_SPEED: COMMANDED[_SPEED].field}, {_SPEED: robot.rotor_names})

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return rotor speeds, rad/s, in the file's order."""
        stamp, command = self._read(data)
        return stamp, command if len(command[_SPEED]) else {}

    def joint_states(self) -> tuple[str, Filler]:
        """Return rotor speeds as joint velocities."""
        joints = RotorMessage(topics.type_of(topics.JOINT_STATES)(), self._robot.rotor_names)
        return "measured_rotor_speed", lambda stamp, s: joints.fill(stamp, s["measured_rotor_speed"])

    def speeds(self, sensed: Signals) -> Mapping[str, float]:
        """Return the rotors' speeds."""
        speeds = sensed.get("measured_rotor_speed")
        return {} if speeds is None else dict(zip(self._robot.rotor_names, speeds.tolist()))

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return a state hovering above its starting place."""
        if height_m == 0.0:
            return None
        place = robot.simulation.starts_m[robot.index] if (robot := simulated(backend)) else np.zeros(3)
        hover = np.full(len(self._robot.rotors), self._robot.hover_speed_rad_s)
        return {"position": place + np.array([0.0, 0.0, height_m]), "rotor_speed": hover}


TOPICS = QuadrotorTopics
