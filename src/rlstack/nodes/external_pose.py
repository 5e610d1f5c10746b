"""Poses from motion capture or visual odometry for robots that do not measure their own position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Located
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.nodes.robot_topics import RobotTopics

_SILENT_S = 1.0
_OTHER_CLOCK_S = 0.5


class ExternalPoses:
    """Passes the poses on ``external_pose`` to the backends that need them; their frame becomes ``odom``.

    Args:
        node: Creates subscriptions (:class:`rlstack.nodes.runtime.ManagedNode`).
        robots: The node's robots.
    """

    def __init__(self, node: Any, robots: Sequence[RobotTopics]) -> None:
        self._node = node
        self._heard_s: dict[str, float] = {}
        kind = topics.type_of(topics.EXTERNAL_POSE)
        self._read = SignalReader(kind, {"position": "pose.position", "orientation": "pose.orientation"})
        for robot in robots:
            if isinstance(robot.backend, Located):
                topic = robot.prefix + topics.EXTERNAL_POSE
                self._heard_s[topic] = -1e9
                node.subscriber(kind, topic, partial(self._on_pose, robot.backend, topic), "sensor_in", raw=True)

    @property
    def missing(self) -> str:
        """What is missing, for diagnostics; empty: every robot that needs poses gets them."""
        now = time.monotonic()
        silent = [topic for topic, heard_s in self._heard_s.items() if now - heard_s > _SILENT_S]
        return f"no pose comes on {', '.join(silent)} (motion capture or visual odometry)" if silent else ""

    def _on_pose(self, backend: Located, topic: str, data: bytes) -> None:
        try:
            stamp_ns, pose = self._read(data)
        except ValueError as error:
            self._node.refuse(topic, str(error))
            return
        self._heard_s[topic] = time.monotonic()
        now_s = time.time()
        time_s = stamp_ns / NANOSECONDS or now_s
        if abs(now_s - time_s) > _OTHER_CLOCK_S:
            self._node.warn(
                f"The poses on {topic} are {now_s - time_s:.1f} s old by their stamps: synchronise the clocks of both"
                " machines (chrony or NTP), or leave the stamps 0.",
                topic,
            )
        backend.locate(time_s, pose["position"], pose["orientation"])
