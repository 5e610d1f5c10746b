"""A topic that is recorded: its messages, byte for byte, and how many of them did not arrive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rlstack.data.bags.mcap_file import Message
from rlstack.interfaces import topics
from rlstack.interfaces.recorded import PICTURES
from rlstack.nodes.publisher_identity import IdentifiedTake

_DEPTH, _DEPTH_OF_LARGE = 1000, 16
"""How many messages may wait between two looks: a second of them at 1 kHz, and 15 MB of pictures."""

_LARGE = PICTURES | {topics.CLOUD_TYPE, topics.TYPES[topics.MAP], topics.TYPES[topics.MARKERS]}


class RecordedTopic:
    """Subscribes to a topic; nobody is woken by its messages, which wait until they are taken.

    Best effort, if the last message need not reach late subscribers: nothing is asked of the publishers, which
    reliable subscribers make answer to them.

    Args:
        node: The node that subscribes; no executor serves it.
        name: The topic's absolute name.
        kind: Its message type.
        publishers: The graph's descriptions of its publishers.
        identified: Whether messages tell their publishers apart here.

    Raises:
        UserError: The type is not installed.
    """

    def __init__(self, node: Any, name: str, kind: str, publishers: Collection[Any], identified: bool) -> None:
        self.name, self.kind = name, kind
        self.lost = 0
        """Messages that did not arrive, by the gaps in their publishers' numbers."""
        self._node, self._identified = node, identified
        self._class = topics.message_type(kind)
        self._numbers: dict[bytes, int] = {}
        self._latched = False
        self._subscription: Any = None
        self.subscribe(publishers)

    def subscribe(self, publishers: Collection[Any]) -> None:
        """Subscribe so that all publishers are heard; anew, if there is one that was not."""
        from rclpy.qos import DurabilityPolicy

        offered = [one.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for one in publishers]
        latched = bool(offered) and all(offered)
        if self._subscription is not None and (latched == self._latched or not offered or latched):
            return
        self.close()
        quality = topics.quality("latched" if latched else "sensor_in")
        quality.depth = _DEPTH_OF_LARGE if self.kind in _LARGE else _DEPTH
        self._latched, self._depth = latched, quality.depth
        self._subscription = self._node.create_subscription(
            self._class, self.name, _nobody, quality, raw=True, event_callbacks=_quiet()
        )
        self._take: Callable[[], Message | None] = self._take_unidentified
        if self._identified:
            self._identity = IdentifiedTake(self._subscription)
            self._take = self._take_identified

    def take(self) -> list[Message]:
        """Take what waits."""
        found: list[Message] = []
        while len(found) < self._depth and (message := self._take()) is not None:
            found.append(message)
        return found

    def close(self) -> None:
        """Leave the topic."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)

    def _take_identified(self) -> Message | None:
        taken = self._identity()
        if taken is None:
            return None
        data, publisher = taken
        number = self._identity.sequence
        self._count(publisher, number)
        return Message(self.name, self._identity.received_ns, self._identity.sent_ns, number, data)

    def _take_unidentified(self) -> Message | None:
        taken = self._subscription.handle.take_message(self._class, True)
        if taken is None:
            return None
        data, told = taken
        number = int(told.get("publication_sequence_number") or 0)
        if number and self._node.count_publishers(self.name) == 1:
            self._count(b"", number)
        return Message(self.name, int(told["received_timestamp"]), int(told["source_timestamp"]), number, data)

    def _count(self, publisher: bytes, number: int) -> None:
        before = self._numbers.get(publisher)
        if before is not None and number > before + 1:
            self.lost += number - before - 1
        if before is None or number > before:
            self._numbers[publisher] = number


def quality_of(profile: Any) -> Mapping[str, Any]:
    """Return a publisher's quality of service as ``ros2 bag`` writes it."""
    return {
        "history": profile.history.name.lower(),
        "depth": profile.depth,
        "reliability": profile.reliability.name.lower(),
        "durability": profile.durability.name.lower(),
        "deadline": _time(profile.deadline),
        "lifespan": _time(profile.lifespan),
        "liveliness": profile.liveliness.name.lower(),
        "liveliness_lease_duration": _time(profile.liveliness_lease_duration),
        "avoid_ros_namespace_conventions": bool(profile.avoid_ros_namespace_conventions),
    }


def _time(duration: Any) -> dict[str, int]:
    seconds, nanoseconds = divmod(duration.nanoseconds, 10**9)
    return {"sec": seconds, "nsec": nanoseconds}


def _quiet() -> Any:
    from rclpy.event_handler import SubscriptionEventCallbacks

    return SubscriptionEventCallbacks(use_default_callbacks=False)


def _nobody(data: bytes) -> None:
    """No executor serves these subscriptions."""
