"""Subscriptions that are asked for their newest message and wake nobody, for nodes that show what others publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstack.errors import MalformedMessage
from rlstack.interfaces import topics
from rlstack.nodes.executor import serve


class PolledTopics:
    """Subscriptions of a node that no executor serves.

    A message that nobody asks for costs no more than its arrival: a viewer at 30 Hz need not wake 500 times a second.

    Args:
        node: The node.
        refuse: Called with a topic and an error if a message could not be read.
    """

    def __init__(self, node: Any, refuse: Callable[[str, Exception], None]) -> None:
        self._node, self._refuse = node, refuse
        self._subscriptions: list[Any] = []

    def subscribe(
        self, kind: Any, topic: str, callback: Callable[[Any], None], use: topics.Quality, raw: bool = False
    ) -> Any:
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

        made = self._node.create_subscription(kind, topic, read, topics.quality(use), raw=raw)
        self._subscriptions.append(made)
        return made

    def unsubscribe(self, subscription: Any) -> None:
        """Undo one of :meth:`subscribe`."""
        self._subscriptions.remove(subscription)
        self._node.destroy_subscription(subscription)

    def poll(self) -> None:
        """Take what has arrived; of topics with a depth of 1 that is the newest message."""
        for subscription in list(self._subscriptions):
            for _ in range(subscription.qos_profile.depth):
                if not serve(subscription, lambda which, error: self._refuse(which.topic_name, error)):
                    break

    def close(self) -> None:
        """Leave all topics."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()
