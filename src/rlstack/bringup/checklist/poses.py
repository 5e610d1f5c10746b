"""Poses from motion capture during a bring-up, for robots that do not measure their own place."""

from __future__ import annotations

import threading
import time
from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Located
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.signal_reader import SignalReader


class PoseFeed:
    """Passes the poses on ``external_pose`` of a namespace to a driver, as the robot node does.

    Args:
        backend: The driver.
        namespace: The robot's.

    Raises:
        UserError: ROS is not there.
    """

    def __init__(self, backend: Located, namespace: str) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node
        from rclpy.signals import SignalHandlerOptions

        from rlstack.nodes.runtime import prepare_environment, require_ros

        require_ros()
        prepare_environment()
        kind = topics.type_of(topics.EXTERNAL_POSE)
        read = SignalReader(kind, {"position": "pose.position", "orientation": "pose.orientation"})

        def locate(data: bytes) -> None:
            try:
                stamp_ns, pose = read(data)
            except ValueError:  # what is malformed does not come, which shows in the rate
                return
            backend.locate(stamp_ns / NANOSECONDS or time.time(), pose["position"], pose["orientation"])

        self._context = Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node: Any = Node("bringup", namespace=namespace, context=self._context)
        quality = topics.quality("sensor_in")
        self._node.create_subscription(kind, topics.EXTERNAL_POSE, locate, quality, raw=True)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="poses", daemon=True)
        self._thread.start()

    @property
    def topic(self) -> str:
        """Where poses are expected."""
        return str(self._node.resolve_topic_name(topics.EXTERNAL_POSE))

    def close(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.shutdown()

    def _serve(self) -> None:
        while not self._over.is_set():
            self._executor.spin_once(timeout_sec=0.05)
