"""Teleoperation topics as an input device: any node that publishes them can teleoperate."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.hardware.devices import TeleopInput
from rlstack.hardware.devices.spacemouse import LINGER_S
from rlstack.interfaces import topics
from rlstack.interfaces.topics import INTERVENE, TELEOP_GRIPPER, TELEOP_JOINTS, TELEOP_TWIST, TELEOP_TYPES
from rlstack.nodes.shutdown import shut_down

STALE_S = 0.25
"""Older messages are ignored: a sender repeats them even at rest, so it may be gone."""


class TopicDevice:
    """See :class:`rlstack.hardware.devices.Device`.

    Before the first ``teleop/intervene``, any tool motion takes control, for a moment; then that topic decides.

    Args:
        namespace: Namespace of the topics.
        motion: Full speed: ``speed_m_s`` and ``yaw_rate_rad_s``.
    """

    live = True

    def __init__(self, namespace: str, motion: Any) -> None:
        self._namespace = namespace.strip("/")
        self._speed, self._turn = float(motion.speed_m_s), float(motion.yaw_rate_rad_s)
        self.keys = f"waiting for /{self._namespace}/{TELEOP_TWIST}, or {TELEOP_JOINTS} of a leader arm; Ctrl-C stops"
        self._node: Any = None
        self._heard = 0
        self._twist: tuple[float, np.ndarray] = (-1e9, np.zeros(6))
        self._joints: tuple[float, dict[str, float]] = (-1e9, {})
        self._gripper: float | None = None
        self._told_before: float | None = None
        self._intervene: bool | None = None
        self._led_at = -1e9
        self._refused = ""

    def open(self) -> None:
        """Subscribe."""
        from rlstack.nodes.runtime import prepare_environment, require_ros

        require_ros()
        prepare_environment()
        import rclpy
        from rclpy.signals import SignalHandlerOptions

        if not rclpy.ok():
            rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)  # the recording process handles Ctrl-C
        self._node = rclpy.create_node("hand", namespace=f"/{self._namespace}")
        for topic, hear, use in (
            (TELEOP_TWIST, self.hear_twist, "command"),
            (TELEOP_JOINTS, self.hear_joints, "command"),
            (TELEOP_GRIPPER, self.hear_gripper, "command"),
            (INTERVENE, self.hear_intervene, "latched"),
        ):
            kind = topics.message_type(TELEOP_TYPES[topic])
            self._node.create_subscription(kind, topic, hear, topics.quality(use))  # type: ignore[arg-type]

    def read(self) -> TeleopInput:
        """Return the last input."""
        import rclpy

        for _ in range(50):
            before = self._heard
            rclpy.spin_once(self._node, timeout_sec=0.0)
            if self._heard == before:
                break
        return self.hand()

    def hand(self) -> TeleopInput:
        """Return the input of the last messages.

        Raises:
            UserError: One was in an unsupported frame.
        """
        if self._refused:
            raise UserError(self._refused)
        now = time.monotonic()
        joints = self._joints[1] if now - self._joints[0] < STALE_S else None
        leads = self._intervene
        if leads is None:
            leads = joints is not None or now - self._led_at < LINGER_S
        elif not leads:
            return TeleopInput(intervene=False)
        if joints is not None:
            return TeleopInput(intervene=leads, joints=joints)
        if not self._fresh:
            return TeleopInput(intervene=leads)
        share = self._twist[1] / np.array([self._speed] * 3 + [self._turn] * 3)
        grip = 0.0 if self._gripper is None or self._gripper == self._told_before else self._gripper
        return TeleopInput(share[:3], share[3:], grip, leads)

    def forget(self) -> None:
        """Ignore the gripper until its command changes: a key held down elsewhere is sent repeatedly."""
        self._told_before = self._gripper

    def close(self) -> None:
        """Destroy the subscriptions."""
        if self._node is not None:
            shut_down(self._node)
            self._node = None

    def hear_twist(self, message: Any) -> None:
        """Process a ``geometry_msgs/TwistStamped``; a non-finite one is ignored."""
        self._heard += 1
        twist = message.twist
        values = np.array(
            [*(getattr(twist.linear, axis) for axis in "xyz"), *(getattr(twist.angular, axis) for axis in "xyz")]
        )
        if message.header.frame_id.rpartition("/")[2] not in ("", topics.BODY_FRAME):
            self._refused = (
                f"/{self._namespace}/{TELEOP_TWIST} is in the frame '{message.header.frame_id}': give it in"
                f" {topics.BODY_FRAME}."
            )
        if np.isfinite(values).all():
            self._twist = (time.monotonic(), values)
            if values.any():
                self._led_at = time.monotonic()

    def hear_joints(self, message: Any) -> None:
        """Process a ``sensor_msgs/JointState``; an empty or non-finite one is ignored."""
        self._heard += 1
        joints = dict(zip(message.name, map(float, message.position)))
        if joints and np.isfinite(list(joints.values())).all():
            self._joints = (time.monotonic(), joints)

    def hear_gripper(self, message: Any) -> None:
        """Process a ``std_msgs/Float64``; a non-finite one is ignored."""
        self._heard += 1
        if not np.isfinite(message.data):
            return
        value = float(np.clip(message.data, -1.0, 1.0))
        if self._gripper is None and not self._fresh:
            self._told_before = value  # it was published before anyone took control
        elif value != (self._gripper or 0.0):
            self._told_before = None
            if value:
                self._led_at = time.monotonic()
        self._gripper = value

    def hear_intervene(self, message: Any) -> None:
        """Process a ``std_msgs/Bool``."""
        self._heard += 1
        self._intervene = bool(message.data)

    @property
    def _fresh(self) -> bool:
        return time.monotonic() - self._twist[0] < STALE_S
