"""Quadrupeds on the robot node's topics: odometry, IMU and joints out, targets of joints by name in; none means off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlstack.guard import Decision
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Signals
from rlstack.interfaces.messages import NANOSECONDS, JointMessage
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.trajectory_data import TrajectoryReader
from rlstack.kinds.quadruped.guard import QuadrupedGuard
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.nodes.guard_parameters import STALENESS
from rlstack.nodes.kind_topics import Filler, GuardSenses, KindTopics, SeenClock
from rlstack.nodes.parameters import Parameter, ParameterSet

_JOINTS, _TARGET = "joint_position", "joint_target"


class JointSenses(GuardSenses):
    """Subscribes to joint states; see :class:`rlstack.nodes.kind_topics.GuardSenses`."""

    def __init__(
        self, node: Any, guard: QuadrupedGuard, clock: SeenClock, take: Callable[[Decision], None], lock_step: bool
    ) -> None:
        super().__init__(node, guard, clock, take, lock_step)
        self.counts = {"joint states": 0}
        self._node, self._guard, self._clock = node, guard, clock
        sensor = guard.robot.sensors.get(topics.JOINT_STATES)
        self._every_ns = 0 if sensor is None else round(NANOSECONDS / sensor.rate_hz)
        self._newest_ns = -1
        names = tuple(drive.name for drive in guard.robot.drives)
        kind = topics.type_of(topics.JOINT_STATES)
        self._read = SignalReader(kind, {_JOINTS: SENSED[_JOINTS].field}, {_JOINTS: names})
        quality: topics.Quality = "sensor_in_reliable" if lock_step else "sensor_in"
        node.subscriber(kind, topics.JOINT_STATES, self._on_joints, quality, raw=True)

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether the joint states that go with an observation are still on their way (lock step)."""
        return self._newest_ns + self._every_ns <= stamp_ns

    def forget(self) -> None:
        """Begin another episode."""
        self._newest_ns = -1

    def _on_joints(self, data: bytes) -> None:
        if not self._node.active:
            return
        try:
            stamp, signals = self._read(data)
        except ValueError as error:
            self._node.warn(f"Joint states were refused: {error}.", "joints")
            return
        self.counts["joint states"] += 1
        self._newest_ns = stamp
        if (times := self._clock(stamp)) is not None:
            self._guard.on_joints(times[0], signals[_JOINTS])


class QuadrupedTopics(KindTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    GUARD_PARAMETERS = (
        STALENESS,
        Parameter("posture_speed_rad_s", 1.0, "Speed at which the guard leads legs to a posture, rad/s.", minimum=0.01),
        Parameter("stand_before_crouching_s", 5.0, "How long the fallback stands before it crouches, s.", minimum=0.0),
    )
    GUARD_SENSES = JointSenses
    observed = topics.ODOM
    command_topic = topics.JOINT_COMMAND

    def __init__(self, robot: Quadruped, parameters: ParameterSet) -> None:
        self._names = tuple(drive.name for drive in robot.drives)
        self._read = TrajectoryReader(self._names)
        self.command_type = self._read.type

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return targets (joints,), rad, in the file's order."""
        stamp, command = self._read(data)
        return stamp, command if len(command[_TARGET]) else {}

    def joint_states(self) -> tuple[str, Filler]:
        """Return positions and velocities of the joints."""
        joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), self._names)
        return _JOINTS, lambda stamp, s: joints.fill(stamp, s[_JOINTS], s["joint_velocity"])

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return where the joints are, rad."""
        return dict(zip(self._names, sensed[_JOINTS].tolist()))


TOPICS = QuadrupedTopics
