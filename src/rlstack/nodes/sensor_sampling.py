"""Sampling of cameras and lidars: at their rates, right after odometry, and only what has subscribers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.interfaces.backend import Capture
from rlstack.interfaces.messages import seconds_to_ns
from rlstack.interfaces.sensor_queue import SensorQueue
from rlstack.interfaces.timing import JUMP_NS
from rlstack.nodes.robot_topics import RobotTopics
from rlstack.nodes.sensor_topics import SensorTopics

_SOONEST = 0.75
"""Least time between two captures of a real robot that are published, in periods of the robot file's rate."""


class SensorSampler:
    """Samples cameras and lidars and publishes them after their odometry, while its subscribers already compute.

    A simulator's sensors are sampled at their rates; a real robot's captures are published once each, when they are
    new.

    In real time commands wait while an image is rendered, so one control period has no more images than the cameras'
    rates need: of two that are due together, one is captured a period later, with that stamp.

    A camera or lidar that does not work here, for example without rendering, is skipped with one warning. When odometry
    is published again, so are the captures with or before it.

    Args:
        node: Creates publishers (:class:`rlstack.nodes.runtime.ManagedNode`).
        robots: All of the node's.
    """

    def __init__(self, node: Any, robots: Sequence[RobotTopics]) -> None:
        self._node = node
        at_once = bool(node.parameters["lock_step"])  # in lock step time waits
        self._of = {
            robot: _Robot(robot, SensorTopics(node, robot.robot, captured, robot.prefix, robot.frames.prefix), at_once)
            for robot in robots
            if (captured := tuple(getattr(robot.backend, "captured", ())))
        }

    @property
    def failures(self) -> str:
        """Why cameras or lidars are skipped; empty if none is."""
        return " ".join(dict.fromkeys(reason for one in self._of.values() for reason in one.failures.values()))

    def sent(self, robots: Sequence[RobotTopics]) -> None:
        """Sample what is due for robots whose odometry was just published."""
        for robot in robots:
            if robot in self._of:
                for reason in self._of[robot].sent():
                    self._node.get_logger().warning(reason)


class _Robot:
    """One robot's cameras and lidars."""

    def __init__(self, robot: RobotTopics, sensors: SensorTopics, at_once: bool) -> None:
        self._robot, self._sensors = robot, sensors
        owned = robot.backend.owns_time  # otherwise captures are late already
        self._owned = owned
        self._captured_s: dict[str, float] = {}
        """Times of a real robot's last captures, which its driver has at its own rate."""
        self._queues: dict[str, SensorQueue[Capture]] = {
            name: SensorQueue(rate_hz, sensors.latency_ns[name] if owned else 0)
            for name, rate_hz in sensors.rates_hz.items()
        }
        cameras, spec = [name for name in sensors.names if name in robot.robot.cameras], robot.robot
        self._order = [*(name for name in sensors.names if name not in cameras), *cameras]
        a_period = sum(spec.cameras[name].rate_hz for name in cameras) / spec.control_rate_hz
        self._most = len(cameras) if at_once else math.ceil(a_period - 1e-9)
        self._stamp_ns = -1
        self.failures: dict[str, str] = {}

    def sent(self) -> list[str]:
        """Capture and publish what is due; return sensors newly found not to work."""
        stamp_ns, before_ns = self._robot.stamp_ns, self._stamp_ns
        self._stamp_ns = stamp_ns
        if before_ns < 0 or not 0 <= stamp_ns - before_ns < JUMP_NS:
            for queue in self._queues.values():
                queue.restart(stamp_ns)
        newly, taken = [], 0
        for name in [name for name in self._order if name not in self.failures and self._sensors.wanted(name)]:
            camera = name in self._robot.robot.cameras
            if (self._owned and not self._queues[name].is_due(stamp_ns)) or (camera and taken >= self._most):
                continue
            before = self._captured_s.get(name)
            if (reason := self._capture(name, stamp_ns)) is not None:
                newly.append(reason)
            if camera and (self._owned or self._captured_s.get(name) != before):  # it is the others' turn
                taken += 1
                self._order.remove(name)
                self._order.append(name)
        for name, queue in self._queues.items():
            come = queue.pop_arrived(stamp_ns)
            if self._owned and not come and stamp_ns == before_ns and queue.newest is not None:
                come = [queue.newest]  # published again, as a subscriber may have missed it
            for seen_ns, capture in come:
                self._sensors.publish(name, seen_ns, capture)
        return newly

    def _capture(self, name: str, stamp_ns: int) -> str | None:
        """Capture; return why that failed."""
        robot = self._robot
        try:
            capture = robot.backend.capture(name)
        except UserError as error:
            self.failures[name] = f"{robot.prefix}{name} is left out: {error}"
            return self.failures[name]
        assert robot.reading is not None
        if not self._owned:
            least_s = _SOONEST / self._queues[name].rate_hz
            if capture.time_s - self._captured_s.get(name, -math.inf) < least_s:
                return None  # the same again, or more often than the robot file says
            self._captured_s[name] = capture.time_s
        seen_ns = stamp_ns + seconds_to_ns(capture.time_s) - seconds_to_ns(robot.reading.time_s)
        self._queues[name].push(stamp_ns, seen_ns, capture)
        return None
