"""Quadrotors on the robot node's topics: named rotor speeds, or rates and thrust, and what means "off"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Signals
from rlstack.interfaces.image_reader import DepthReader
from rlstack.interfaces.messages import RotorMessage
from rlstack.interfaces.rates_messages import RatesReader
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import COMMANDED
from rlstack.kinds.quadrotor.guard import QuadrotorGuard
from rlstack.kinds.quadrotor.guard_obstacles import SCAN
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.nodes.kind_topics import Filler, GuardSubscriptions, KindTopics, simulated
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.nodes.sensor_readers import SCAN_PARAMETERS, scan_reader
from rlstack.sim.perturbation import Perturbation

_SPEED = "rotor_speed"
_THRUST = Parameter(
    "rotor_thrust",
    (1.0, 1.0, 1.0, 1.0),
    "Thrust of a simulated quadrotor's rotors over that of its file, in the file's order: motors that weaken.",
    minimum=0.0,
    maximum=2.0,
    live=True,
)


class ObstacleSubscriptions(GuardSubscriptions):
    """Subscribes to the scans and depth images that the guard looks for obstacles in.

    See :class:`rlstack.nodes.kind_topics.GuardSubscriptions`.
    """

    def __init__(self, node: Any, guard: QuadrotorGuard) -> None:
        super().__init__(node, guard)
        self._obstacles = obstacles = guard.obstacles
        if obstacles.lidar is not None:
            read = scan_reader(obstacles.lidar, node.parameters, self._placed)
            self._subscribe(SCAN, SCAN, topics.SCAN_TYPE, read)
        for name, camera in obstacles.cameras.items():
            read_depth = DepthReader(name, camera.frames)
            self._subscribe(
                name, topics.camera_topic(name, topics.DEPTH), topics.CAMERA_TYPES[topics.DEPTH], read_depth
            )

    def _subscribe(self, sensor: str, topic: str, kind: str, read: Callable[[bytes], Any]) -> None:
        self.counts |= {f"{topic}s": 0, f"{topic}s refused": 0}
        receive = self._placed.receivers[topic] = partial(self._on_measurement, sensor, topic, read)
        self._node.subscriber(topics.message_type(kind), topic, receive, self._quality, raw=True)

    def _on_measurement(self, sensor: str, topic: str, read: Callable[[bytes], Any], data: bytes) -> None:
        if (received := self._received(topic, read, data)) is None:
            return
        stamp, values = received
        if (times := self._node.times_of(stamp)) is None:
            return
        if sensor == SCAN:
            problem = self._obstacles.receive_scan(times[1], values[SCAN])
        else:
            problem = self._obstacles.receive_depth(times[1], sensor, values[sensor])
        if problem:
            self._refuse(topic, problem)
        else:
            self.counts[f"{topic}s"] += 1


class RotorReader:
    """Reads a serialized command of rotor speeds; call it with the data.

    Args:
        robot: The robot, whose rotors are named.
    """

    def __init__(self, robot: Quadrotor) -> None:
        kind = topics.type_of(topics.ROTOR_COMMAND)
        self._read = SignalReader(kind, {_SPEED: COMMANDED[_SPEED].field}, {_SPEED: robot.rotor_names})

    def __call__(self, data: bytes) -> tuple[int, Signals]:
        """Return the stamp, ns, and rotor speeds (rotors,) rad/s in the file's order; no command: stop the motors."""
        stamp, command = self._read(data)
        return stamp, command if len(command[_SPEED]) else {}


class QuadrotorTopics(KindTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    PARAMETERS = (_THRUST,)
    GUARD_PARAMETERS = SCAN_PARAMETERS
    GUARD_SUBSCRIPTIONS = ObstacleSubscriptions

    observed = topics.ODOM

    def __init__(self, robot: Quadrotor, parameters: ParameterSet) -> None:
        super().__init__(robot, parameters)
        self.command_type = topics.type_of(self.command_topic)
        self._read: Callable[[bytes], tuple[int, Signals]] = RatesReader() if robot.rate_loop else RotorReader(robot)

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return rotor speeds, rad/s, in the file's order; or rates and thrust."""
        return self._read(data)

    def joint_states(self) -> tuple[str, Filler]:
        """Return rotor speeds as joint velocities."""
        joints = RotorMessage(topics.type_of(topics.JOINT_STATES)(), self._robot.rotor_names)
        return "measured_rotor_speed", lambda stamp, s: joints.fill(stamp, s["measured_rotor_speed"])

    def speeds(self, sensed: Signals) -> Mapping[str, float]:
        """Return the rotors' speeds."""
        speeds = sensed.get("measured_rotor_speed")
        return {} if speeds is None else dict(zip(self._robot.rotor_names, speeds.tolist()))

    def change(self, backend: Backend, values: Mapping[str, Any]) -> str:
        """Let the motors of a simulated robot weaken, or recover."""
        factors = values.get(_THRUST.name, _THRUST.default)
        robot = simulated(backend)
        if robot is None:
            return "" if factors == _THRUST.default else f"{_THRUST.name}: a real robot's motors are its own"
        if _THRUST.name in values:
            none = Perturbation.none(1, len(factors))
            robot.perturb(replace(none, thrust_scale=np.array([factors])))
        return ""

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return a state hovering above its starting place."""
        if height_m == 0.0:
            return None
        place = robot.simulation.starts_m[robot.index] if (robot := simulated(backend)) else np.zeros(3)
        hover = np.full(len(self._robot.rotors), self._robot.hover_speed_rad_s)
        return {"position": place + np.array([0.0, 0.0, height_m]), "rotor_speed": hover}


TOPICS = QuadrotorTopics
