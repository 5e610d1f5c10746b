"""Subscriptions that are asked for their newest message and wake nobody, for nodes that show what others publish."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from rlstack.errors import MalformedMessage
from rlstack.interfaces import topics
from rlstack.nodes.executor import serve


@dataclass(eq=False)
class Polled:
    """One subscription, which exists unless its topic rests."""

    kind: Any
    topic: str
    read: Callable[[Any], None]
    use: topics.Quality
    raw: bool
    made: Any = None


def listener_of(node: Any) -> Any:
    """Return a node beside another one, of its name and ``_listener``, whose subscriptions no executor serves."""
    import rclpy

    return rclpy.create_node(
        f"{node.get_name()}_listener",
        namespace=node.get_namespace(),
        context=node.context,
        use_global_arguments=False,
        enable_rosout=False,
        start_parameter_services=False,
    )


class PolledTopics:
    """Subscriptions of a node that no executor serves.

    A message that nobody asks for costs no more than its arrival: a viewer at 30 Hz need not wake 500 times a second.

    Args:
        node: The node.
        refuse: Called with a topic and an error if a message could not be read.
    """

    def __init__(self, node: Any, refuse: Callable[[str, Exception], None]) -> None:
        self._node, self._refuse = node, refuse
        self._subscriptions: list[Polled] = []
        self._rests = False

    def subscribe(
        self, kind: Any, topic: str, callback: Callable[[Any], None], use: topics.Quality, raw: bool = False
    ) -> Polled:
        """Subscribe; :meth:`poll` calls the callback with each message that waits; its ``ValueError`` refuses that.

        Args:
            kind: The message class.
            topic: Its topic.
            callback: Called with each message.
            use: Its quality of service.
            raw: Pass the serialized message.
        """

        def read(message: Any) -> None:
            try:
                callback(message)
            except ValueError as error:
                raise MalformedMessage(str(error)) from error

        polled = Polled(kind, topic, read, use, raw)
        self._subscriptions.append(polled)
        self._follow(polled)
        return polled

    def discover(self, uses: Mapping[str, tuple[Callable[[Any], None], topics.Quality]], there: Container[str]) -> None:
        """Subscribe to topics once somebody publishes them.

        Args:
            uses: Callback and quality of service by topic, each a topic that rlstack knows.
            there: The topics of the graph.
        """
        known = {polled.topic for polled in self._subscriptions}
        for topic, (callback, use) in uses.items():
            if topic in there and topic not in known:
                self.subscribe(topics.type_of(topic), topic, callback, use)

    def unsubscribe(self, polled: Polled) -> None:
        """Undo one of :meth:`subscribe`."""
        self._subscriptions.remove(polled)
        self._leave(polled)

    def rest(self, rests: bool) -> None:
        """Have nothing sent that comes often while ``rests``; what is latched goes on."""
        if rests is not self._rests:
            self._rests = rests
            for polled in self._subscriptions:
                self._follow(polled)

    def poll(self) -> None:
        """Take what has arrived; of topics with a depth of 1 that is the newest message."""
        for polled in list(self._subscriptions):
            made = polled.made
            for _ in range(0 if made is None else made.qos_profile.depth):
                if not serve(made, lambda which, error: self._refuse(which.topic_name, error)):
                    break

    def close(self) -> None:
        """Leave all topics."""
        for polled in self._subscriptions:
            self._leave(polled)
        self._subscriptions.clear()

    def _follow(self, polled: Polled) -> None:
        if self._rests and polled.use not in ("latched", "tf_static"):
            self._leave(polled)
        elif polled.made is None:
            quality = topics.quality(polled.use)
            polled.made = self._node.create_subscription(
                polled.kind, polled.topic, polled.read, quality, raw=polled.raw
            )

    def _leave(self, polled: Polled) -> None:
        if polled.made is not None:
            self._node.destroy_subscription(polled.made)
            polled.made = None
