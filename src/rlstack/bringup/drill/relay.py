"""The drill's own node: passes messages between the robot node and the others, as bytes, and changes them on demand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rlstack.bringup.drill.changes import Change
from rlstack.interfaces import topics

NODE = "drill"
"""Name of the relay's node."""
PREFIX = "drill/"
"""The topics of the sending node are remapped to this prefix; the relay publishes them under their own names."""


class Relay:
    """Passes one topic's messages on.

    Args:
        node: The node that subscribes and publishes.
        kind: The message class.
        source: Topic that it receives.
        target: Topic that it publishes.
        receives: Quality of the subscription.
        sends: Quality of the publisher.
    """

    def __init__(
        self, node: Any, kind: Any, source: str, target: str, receives: topics.Quality, sends: topics.Quality
    ) -> None:
        self.kind, self.source, self.target = kind, source, target
        self.passed = 0
        """Number of messages received."""
        self.newest = b""
        self.kept: list[tuple[float, bytes]] = []
        """What has arrived, unchanged, and when, while :attr:`keeps`."""
        self.keeps = False
        self.changed_at: float | None = None
        """When the last change was first applied; None: since :meth:`keep`, none was."""
        self.muted = False
        """Whether only what :meth:`send` is given goes out."""
        self._change: Change | None = None
        self._publisher = node.create_publisher(kind, target, topics.quality(sends))
        node.create_subscription(kind, source, self._pass, topics.quality(receives), raw=True)

    def set_change(self, change: Change | None) -> None:
        """Apply ``change`` from the next message on; None: pass everything on."""
        self._change = change

    def send(self, data: bytes) -> None:
        """Publish a serialized message of the drill's own."""
        self._publisher.publish(data)

    def keep(self, keeps: bool) -> None:
        """Begin to keep what passes, or end it."""
        if keeps:
            self.kept, self.changed_at = [], None
        self.keeps = keeps

    def _pass(self, data: bytes) -> None:
        now = time.monotonic()
        self.passed += 1
        self.newest = data
        if self.keeps:
            self.kept.append((now, data))
        if self.muted:
            return
        if self._change is None:
            self._publisher.publish(data)
            return
        if self.changed_at is None:
            self.changed_at = now
        for changed in self._change(data):
            self._publisher.publish(changed)


class RelayNode:
    """The drill's node, its executor, and a second node that plays an intruder.

    Args:
        namespace: The robot's.
    """

    def __init__(self, namespace: str) -> None:
        import rclpy
        from rclpy.clock import Clock, ClockType
        from rclpy.context import Context
        from rclpy.signals import SignalHandlerOptions

        from rlstack.nodes.executor import ControlExecutor

        self.namespace = namespace
        self._context: Any = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        options: dict[str, Any] = {"namespace": namespace, "context": self._context, "enable_rosout": False}
        self.node = rclpy.create_node(NODE, **options)
        self.intruder = rclpy.create_node("intruder", **options)
        """Publishes what nobody should."""
        self._executor = ControlExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._due: Callable[[], None] | None = None
        self._timer = self.node.create_timer(1.0, self._on_timer, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()
        self.relays: dict[str, Relay] = {}
        """By the topic that they publish, without the namespace."""

    def add(self, topic: str, kind: Any, *, commands: bool, from_relay: bool = False) -> Relay:
        """Create the relay of a topic.

        Args:
            topic: Its name for the receivers; or, with ``from_relay``, for the sender.
            kind: The message class.
            commands: Whether it carries commands and not measurements.
            from_relay: Whether the receiver's name of it is the remapped one.
        """
        source, target = (topic, PREFIX + topic) if from_relay else (PREFIX + topic, topic)
        qualities: tuple[topics.Quality, topics.Quality] = (
            ("command", "command") if commands else ("sensor_in_reliable", "sensor_out")
        )
        self.relays[topic] = Relay(self.node, kind, source, target, *qualities)
        return self.relays[topic]

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call ``action`` after a time, while spinning; one at a time."""
        self._due = action
        self._timer.timer_period_ns = max(1, round(1e9 * delay_s))
        self._timer.reset()

    def spin_while(self, go_on: Callable[[], bool]) -> None:
        """Pass messages on while ``go_on()`` holds."""
        self._executor.spin_while(go_on)

    def spin_until(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Pass messages on until ``condition()`` holds, and return whether it did within the time."""
        return self._executor.spin_until(condition, timeout_s)

    def spin(self, seconds: float) -> None:
        """Pass messages on for a time."""
        end = time.monotonic() + seconds
        self.spin_while(lambda: time.monotonic() < end)

    def close(self) -> None:
        """Leave ROS."""
        from rlstack.nodes.shutdown import shut_down

        self._executor.shutdown()
        shut_down(self.node, self.intruder)

    def _on_timer(self) -> None:
        self._timer.cancel()
        action, self._due = self._due, None
        if action is not None:
            action()
