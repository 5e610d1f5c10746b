"""What comes on the topics of teleoperation as a device: whichever node publishes them is a teleoperator."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.hardware.devices import Hand
from rlstack.interfaces import topics
from rlstack.interfaces.teleop_data import GRIPPER, INTERVENE, TWIST, TYPES

STALE_S = 0.25
"""A twist that is older says nothing any more: whoever sent it may be gone, and a hand that is still says so too."""


class TopicDevice:
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        namespace: Of the topics.
        motion: What full speed is: ``speed_m_s`` and ``yaw_rate_rad_s``.
    """

    live = True

    def __init__(self, namespace: str, motion: Any) -> None:
        self._namespace = namespace.strip("/")
        self._speed, self._turn = float(motion.speed_m_s), float(motion.yaw_rate_rad_s)
        self.keys = f"waiting for /{self._namespace}/{TWIST}; Ctrl-C stops"
        self._node: Any = None
        self._twist: tuple[float, np.ndarray] = (-1e9, np.zeros(6))
        self._gripper, self._intervene = 0.0, False
        self._refused = ""

    def open(self) -> None:
        """Subscribe."""
        from rlstack.nodes.runtime import prepare_environment, require_ros

        require_ros()
        prepare_environment()
        import rclpy
        from rclpy.signals import SignalHandlerOptions

        if not rclpy.ok():
            rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)  # Ctrl-C is whoever's who records
        self._node = rclpy.create_node("demo_record", namespace=f"/{self._namespace}")
        for topic, hear, use in (
            (TWIST, self._hear, "command"),
            (GRIPPER, self._grip, "command"),
            (INTERVENE, self._lead, "latched"),
        ):
            kind = topics.message_type(TYPES[topic])
            self._node.create_subscription(kind, topic, hear, topics.quality(use))  # type: ignore[arg-type]

    def read(self) -> Hand:
        """Return what came last."""
        import rclpy

        for _ in range(50):
            before = self._twist
            rclpy.spin_once(self._node, timeout_sec=0.0)
            if self._twist is before:
                break
        if self._refused:
            raise UserError(self._refused)
        at, twist = self._twist
        fresh = time.monotonic() - at < STALE_S
        share = twist / np.array([self._speed] * 3 + [self._turn] * 3) if fresh else np.zeros(6)
        return Hand(share[:3], share[3:], self._gripper if fresh else 0.0, self._intervene)

    def close(self) -> None:
        """Let go of the topics."""
        if self._node is not None:
            import rclpy

            self._node.destroy_node()
            self._node = None
            rclpy.try_shutdown()

    def _hear(self, message: Any) -> None:
        twist = message.twist
        values = np.array(
            [*(getattr(twist.linear, axis) for axis in "xyz"), *(getattr(twist.angular, axis) for axis in "xyz")]
        )
        if message.header.frame_id not in ("", topics.BODY_FRAME):
            self._refused = (
                f"/{self._namespace}/{TWIST} is given in the frame '{message.header.frame_id}': demonstrations are"
                f" recorded in {topics.BODY_FRAME}."
            )
        if np.isfinite(values).all():
            self._twist = (time.monotonic(), values)

    def _grip(self, message: Any) -> None:
        if np.isfinite(message.data):
            self._gripper = float(np.clip(message.data, -1.0, 1.0))

    def _lead(self, message: Any) -> None:
        self._intervene = bool(message.data)
