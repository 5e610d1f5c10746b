"""Who else is on a node's topics: a second publisher where there should be one, wrong types, incompatible qualities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlstack.interfaces.node_names import name_of

_PATIENCE = 3
"""Checks for which an endpoint may be without a node's name: ROS states the two one after the other."""


def listed(names: Sequence[str]) -> str:
    """Return names as in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def type_name(kind: Any) -> str:
    """Return the full name of a message class, such as ``nav_msgs/msg/Odometry``."""
    return f"{kind.__module__.partition('.')[0]}/msg/{kind.__name__}"


@dataclass(frozen=True)
class Problem:
    """What is wrong on a topic."""

    sentence: str
    is_error: bool = False


@dataclass
class _Watched:
    """A topic of the node."""

    name: str
    type: str
    readers: list[Any] = field(default_factory=list)
    """Qualities of service of the node's own subscriptions."""
    writers: list[Any] = field(default_factory=list)
    """The same of its publishers."""
    seen: tuple[int, int] = (-1, -1)
    unnamed: int = 0
    problems: tuple[Problem, ...] = ()


class TopicWatch:
    """Compares a node's topics with what ROS knows of the other nodes on them.

    Counting a topic's endpoints takes microseconds and happens at every check; their descriptions are read when their
    number has changed, and those of one topic more each time, in turn.

    Args:
        node: The node.
        said: Called with every new problem.
    """

    def __init__(self, node: Any, said: Callable[[Problem], None]) -> None:
        self._node, self._said = node, said
        self._topics: dict[str, _Watched] = {}
        self._single: dict[str, SinglePublisher] = {}
        self._turn = 0

    def reads(self, topic: str, kind: Any, quality: Any) -> None:
        """Watch a topic that the node subscribes to; one of several qualities suffices."""
        self._topic(topic, kind).readers.append(quality)

    def writes(self, topic: str, kind: Any, quality: Any) -> None:
        """Watch a topic that the node publishes."""
        self._topic(topic, kind).writers.append(quality)

    def single(
        self, topic: str, *, is_error: bool = False, react: Callable[[str], None] = lambda who: None
    ) -> SinglePublisher:
        """Expect one publisher alone on a topic, which may be the node itself.

        Args:
            topic: The topic.
            is_error: Whether a second publisher is an error, or else a warning.
            react: Called at every look at the topic that finds several, with who they are.
        """
        name = self._node.resolve_topic_name(topic)
        return self._single.setdefault(name, SinglePublisher(self._node, name, is_error, react))

    def leave(self, topic: str) -> None:
        """Watch a topic no more."""
        self._topics.pop(self._node.resolve_topic_name(topic), None)

    def forget(self) -> None:
        """Watch nothing any more."""
        self._topics.clear()
        self._single.clear()

    def check(self) -> None:
        """Look at the topics; call it about once a second."""
        topics = list(self._topics.values())
        for number, topic in enumerate(topics):
            counts = self._node.count_publishers(topic.name), self._node.count_subscribers(topic.name)
            if counts != topic.seen or topic.unnamed or number == self._turn:
                topic.seen = counts
                self._examine(topic)
        self._turn = (self._turn + 1) % max(len(topics), 1)

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong now."""
        return [problem for topic in self._topics.values() for problem in topic.problems]

    def _topic(self, topic: str, kind: Any) -> _Watched:
        name = self._node.resolve_topic_name(topic)
        return self._topics.setdefault(name, _Watched(name, type_name(kind)))

    def _examine(self, topic: _Watched) -> None:
        publishers = self._node.get_publishers_info_by_topic(topic.name) if topic.readers or topic.writers else []
        subscribers = self._node.get_subscriptions_info_by_topic(topic.name) if topic.writers else []
        nameless = not all(map(name_of, [*publishers, *subscribers]))
        topic.unnamed = topic.unnamed + 1 if nameless and topic.unnamed < _PATIENCE else 0
        if topic.unnamed:
            return
        found = [*self._unread(topic, publishers), *self._unheard(topic, subscribers)]
        single = self._single.get(topic.name)
        if single is not None and (sentence := single.of(publishers)):
            found.append(Problem(f"{sentence}. Stop all but one of them.", single.is_error))
            single.react(sentence)
        before, topic.problems = topic.problems, tuple(dict.fromkeys(found))
        for problem in topic.problems:
            if problem not in before:
                self._said(problem)

    def _unread(self, topic: _Watched, publishers: Sequence[Any]) -> Iterator[Problem]:
        if not topic.readers:
            return
        for one in publishers:
            if one.topic_type != topic.type:
                yield Problem(
                    f"{name_of(one) or 'A node'} publishes {topic.name} as {one.topic_type}, and this node reads"
                    f" {topic.type}: nothing arrives from it. Change its type, or remap one of them."
                )
            elif why := all_incompatible([(one.qos_profile, reader) for reader in topic.readers]):
                yield Problem(
                    f"{name_of(one) or 'A node'} publishes {topic.name} with a quality of service from which this node"
                    f" receives nothing ({why}): see docs/topics.md for the one to use."
                )

    def _unheard(self, topic: _Watched, subscribers: Sequence[Any]) -> Iterator[Problem]:
        by_name: dict[str, list[Any]] = {}
        for one in subscribers:
            by_name.setdefault(name_of(one), []).append(one)
        for name, several in by_name.items():
            other = next((one.topic_type for one in several if one.topic_type != topic.type), "")
            if other:
                yield Problem(
                    f"{name or 'A node'} subscribes to {topic.name} as {other}, and this node publishes"
                    f" {topic.type}: nothing arrives there. Change its type, or remap one of them."
                )
            elif why := all_incompatible([(writer, one.qos_profile) for one in several for writer in topic.writers]):
                yield Problem(
                    f"{name or 'A node'} subscribes to {topic.name} with a quality of service that this node's does not"
                    f" satisfy ({why}), so it receives nothing: see docs/topics.md for the one to use."
                )


class SinglePublisher:
    """A topic on which one publisher alone is expected.

    A publisher that was killed is listed until its lease ends, up to 20 s. A node of the same name that has taken its
    place is therefore no second one, unless both are heard.

    Args:
        node: The node that reads or publishes the topic.
        topic: Its full name.
        is_error, react: See :meth:`TopicWatch.single`.
    """

    ALTERNATE_S = 0.5
    """Two publishers that are both heard within this time are mixed."""

    def __init__(self, node: Any, topic: str, is_error: bool, react: Callable[[str], None]) -> None:
        self._node, self._topic, self.is_error, self.react = node, topic, is_error, react
        self._heard: dict[bytes, float] = {}

    def hear(self, gid: bytes, now_s: float) -> bool:
        """Note that a publisher has sent a message; return whether another one has within half a second."""
        self._heard[gid] = now_s
        if len(self._heard) == 1:
            return False
        self._heard = {one: at for one, at in self._heard.items() if now_s - at <= self.ALTERNATE_S}
        return len(self._heard) > 1

    def rivals(self) -> str:
        """Return who publishes the topic, as a sentence without its end, if that is more than one; otherwise empty."""
        return self.of(self._node.get_publishers_info_by_topic(self._topic))

    def of(self, publishers: Sequence[Any]) -> str:
        """Return the same for a list of the topic's publishers."""
        names = sorted({name_of(one) or "a program that is no ROS node" for one in publishers})
        if len(names) > 1:
            return f"{len(names)} nodes publish {self._topic}: {listed(names)}"
        heard = [one for one in publishers if bytes(one.endpoint_gid)[:16] in self._heard]
        if len(heard) > 1:
            return f"{len(heard)} nodes publish {self._topic}, all called {names[0]}"
        return ""


def all_incompatible(pairs: Sequence[tuple[Any, Any]]) -> str:
    """Return why a publisher and a subscription of every pair do not fit; empty if one pair does."""
    why = [_incompatible(publisher, subscription) for publisher, subscription in pairs]
    return why[0] if all(why) else ""


def _incompatible(publisher: Any, subscription: Any) -> str:
    """Return which policy of a publisher is not what a subscription asks for; empty if they fit.

    rclpy's own comparison takes an unset duration and an endless one, which is how ROS lists it, for different.
    """
    from rclpy.qos import DurabilityPolicy, LivelinessPolicy, ReliabilityPolicy

    for policy, weak, strong in (
        ("reliability", ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE),
        ("durability", DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL),
        ("liveliness", LivelinessPolicy.AUTOMATIC, LivelinessPolicy.MANUAL_BY_TOPIC),
    ):
        if (getattr(publisher, policy), getattr(subscription, policy)) == (weak, strong):
            said, asked = (one.name.lower().replace("_", " ") for one in (weak, strong))
            return f"{policy}: the publisher's is {said}, the subscription's {asked}"
    for policy in ("deadline", "liveliness_lease_duration"):
        offered, asked_ns = (_finite_ns(getattr(one, policy)) for one in (publisher, subscription))
        if offered > asked_ns:
            return f"{policy.replace('_', ' ')}: the subscription asks for {asked_ns * 1e-9:g} s"
    return ""


def _finite_ns(duration: Any) -> float:
    """Return a duration, ns; infinite if it is unset or endless."""
    nanoseconds = duration.nanoseconds
    return math.inf if nanoseconds <= 0 or nanoseconds >= 2**62 else float(nanoseconds)
