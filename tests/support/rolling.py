"""A wheeled base on the topics, as a driver of another maker is one: odometry and scans out, twists in."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, OdometryMessage, set_stamp, stamp_to_ns
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.kinds.wheeled_base.spec import WheeledBase
from tests.support.ros import Listener

Box = tuple[float, float, float, float]
"""Lowest x and y, highest x and y, m."""


def cast(robot: WheeledBase, pose: list[float], boxes: list[Box]) -> np.ndarray:
    """Return what the lidar ``scan`` measures (rays,) m; infinite where nothing is within reach."""
    lidar = robot.lidars["scan"]
    x, y, yaw = pose
    cos, sin = math.cos(yaw), math.sin(yaw)
    mx, my = lidar.position[:2]
    origin = np.array([x + cos * mx - sin * my, y + sin * mx + cos * my])
    angles = lidar.angles_rad + yaw
    directions = np.stack((np.cos(angles), np.sin(angles)), axis=-1)
    ranges = np.full(lidar.rays, np.inf)
    for low_x, low_y, high_x, high_y in boxes:
        with np.errstate(divide="ignore", invalid="ignore"):
            to = (np.array([[low_x, low_y], [high_x, high_y]])[:, None] - origin) / directions
        enter, leave = np.minimum(*to).max(axis=-1), np.maximum(*to).min(axis=-1)
        hit = (enter <= leave) & (leave > 0.0)
        ranges = np.where(hit, np.minimum(ranges, np.maximum(enter, 0.0)), ranges)
    ranges[ranges < lidar.range_min_m] = -np.inf
    ranges[ranges > lidar.range_max_m] = np.inf
    return ranges


class RollingBase:
    """Moves as it is told; in lock step by a period for each answer, else with the wall's clock.

    Args:
        listener: Whose node it talks through.
        robot: What it is.
        boxes: What stands around it.
        lock_step: Wait for the command that bears the last stamp.
        plain: Hear ``geometry_msgs/Twist``.
    """

    def __init__(
        self,
        listener: Listener,
        robot: WheeledBase,
        boxes: list[Box] | None = None,
        *,
        lock_step: bool = True,
        plain: bool = False,
    ) -> None:
        self.robot, self.boxes, self._lock_step, self._listener = robot, boxes or [], lock_step, listener
        self.period_s = 1.0 / robot.control_rate_hz
        self.pose = [0.0, 0.0, 0.0]
        self.twist = np.zeros(2)
        self.stamp_ns, self._scan_turn = 0, -1
        self.commands: list[tuple[int, float, float]] = []
        self.poses: list[list[float]] = []
        node, quality = listener.node, topics.quality("sensor_out")
        self._odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME)
        self._scan = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), "scan_link", robot.lidars["scan"])
        self._odom_out = node.create_publisher(topics.type_of(topics.ODOM), topics.ODOM, quality)
        self._scan_out = node.create_publisher(topics.message_type(topics.SCAN_TYPE), "scan", quality)
        kind = topics.message_type(topics.PLAIN_TWIST) if plain else topics.type_of(topics.TWIST_COMMAND)
        node.create_subscription(kind, topics.TWIST_COMMAND, self._on_command, topics.quality("command"))
        self._began = time.monotonic()
        self._timer = node.create_timer(0.1 if lock_step else self.period_s, self._on_timer)
        self.mute_scan = False

    def jump(self, dx: float) -> None:
        """Move odometry, as an estimator does that has gone wrong."""
        self.pose[0] += dx

    def say(self) -> None:
        """Publish odometry and, where it is due, a scan."""
        x, y, yaw = self.pose
        self._odom_out.publish(
            self._odometry.fill(
                self.stamp_ns,
                np.array([x, y, 0.0]),
                np.array([0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)]),
                np.array([self.twist[0], 0.0, 0.0]),
                np.array([0.0, 0.0, self.twist[1]]),
            )
        )
        turn = int(1e-9 * self.stamp_ns * self.robot.lidars["scan"].rate_hz + 1e-6)
        if turn != self._scan_turn and not self.mute_scan:
            self._scan_turn = turn
            self._last = self._scan.fill(self.stamp_ns, cast(self.robot, self.pose, self.boxes))
            self._scan_out.publish(self._last)

    def _on_timer(self) -> None:
        if self._lock_step:
            if self._scan_turn >= 0:
                self._scan_out.publish(self._last)
            self.say()  # again, until it is heard
            return
        now_ns = time.time_ns()
        self._move(min((now_ns - self.stamp_ns) / NANOSECONDS, 2.0 * self.period_s) if self.stamp_ns else 0.0)
        self.stamp_ns = now_ns
        self.say()

    def _on_command(self, message: Any) -> None:
        twist = getattr(message, "twist", message)
        stamp_ns = stamp_to_ns(message.header.stamp) if hasattr(message, "header") else 0
        self.commands.append((stamp_ns, twist.linear.x, twist.angular.z))
        self.twist = np.array([twist.linear.x, twist.angular.z])
        if self._lock_step and stamp_ns == self.stamp_ns:
            self._move(self.period_s)
            self.stamp_ns += round(self.period_s * NANOSECONDS)
            self.say()

    def _move(self, dt: float) -> None:
        speed, turning = self.twist.tolist()
        middle = self.pose[2] + 0.5 * turning * dt
        self.pose[0] += speed * dt * math.cos(middle)
        self.pose[1] += speed * dt * math.sin(middle)
        self.pose[2] += turning * dt
        self.poses.append(list(self.pose))

    def goal(self, x: float, y: float) -> Any:
        """Return a goal."""
        message = topics.type_of(topics.GOAL)()
        set_stamp(message.header.stamp, 0)
        message.header.frame_id = topics.WORLD_FRAME
        message.pose.position.x, message.pose.position.y = x, y
        message.pose.orientation.w = 1.0
        return message
