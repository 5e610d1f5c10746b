"""Quadrupeds on the robot node's topics: odometry, IMU and joint states out, named joint targets in."""

from __future__ import annotations

from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.kinds.quadruped.guard import QuadrupedGuard
from rlstack.nodes.kind_topics import GuardSubscriptions, JointTargetTopics

_JOINTS = "joint_position"


class JointSubscription(GuardSubscriptions):
    """Subscribes to joint states; see :class:`rlstack.nodes.kind_topics.GuardSubscriptions`."""

    def __init__(self, node: Any, guard: QuadrupedGuard) -> None:
        super().__init__(node, guard)
        self.counts |= {"joint states": 0, "joint states refused": 0}
        sensor = guard.robot.sensors.get(topics.JOINT_STATES)
        self._every_ns = 0 if sensor is None else round(NANOSECONDS / sensor.rate_hz)
        names = tuple(drive.name for drive in guard.robot.drives)
        kind = topics.type_of(topics.JOINT_STATES)
        self._read = SignalReader(kind, {_JOINTS: SENSED[_JOINTS].field}, {_JOINTS: names})
        node.subscriber(kind, topics.JOINT_STATES, self._on_joints, self._quality, raw=True)

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether the joint states that belong to an observation are still in transit (lock step)."""
        return self._newest_ns + self._every_ns <= stamp_ns

    def _on_joints(self, data: bytes) -> None:
        if (received := self._received("joint state", self._read, data)) is None:
            return
        self._newest_ns, signals = received
        self.counts["joint states"] += 1
        if (times := self._node.times_of(self._newest_ns)) is not None:
            self._guard.on_joints(times[0], signals[_JOINTS])


class QuadrupedTopics(JointTargetTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    GUARD_SUBSCRIPTIONS = JointSubscription
    observed = topics.ODOM


TOPICS = QuadrupedTopics
