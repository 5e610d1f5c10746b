"""The playing node: publishes what a bag holds on the same topics, with the messages' own stamps."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from rlstack.data.bags.bag import Bag
from rlstack.data.bags.mcap_file import Message
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.recorded import MOVING, SHARED, SHOWING
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode

PARAMETERS = (
    Parameter("bag", "", "The bag's folder, or one of its files."),
    Parameter("rate", 1.0, "How much faster than it was recorded.", minimum=0.01, maximum=100.0),
    Parameter("from_s", 0.0, "Where to begin, s after the first message.", minimum=0.0),
    Parameter("until_s", 0.0, "Where to end, likewise; 0: at the last message.", minimum=0.0),
    Parameter("topics", (), "Topics to play, absolute or their ends; empty: all.", each=str),
    Parameter("remap", (), "Other names, each from:=to, of topics or namespaces.", each=str),
)

_TICK_S = 0.002
_CLOCK_S = 0.01
"""Period of /clock, where the bag has none."""
_FOUND_S = 1.0
"""How long the graph may take to show who is there."""
_LOOK_S = 0.5
_BUSY_S = 0.05
"""Longest time for which messages that are late are published without serving anything else."""
_NEVER = frozenset({"/rosout", "/parameter_events"})
"""Topics that this node has itself."""
_OF_MANY = SHARED - {topics.CLOCK}
"""Topics on which several publishers are no conflict."""


class PlayNode(ManagedNode):
    """Plays a bag once, and ends its process then.

    It never competes with a live robot: a topic that somebody else publishes, and a command that somebody obeys, is
    played only if it was asked for by name.
    """

    NAME: ClassVar[str] = "play"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Open the bag, look who is there, and create the topics.

        Raises:
            UserError: There is no such bag or topic, its messages are not of ROS 2, or a live robot is in the way.
        """
        self._bag: Bag | None = None
        self._bag = bag = Bag(self.parameters["bag"])
        names = _pairs(self.parameters["remap"])
        self._named = set(bag.choose(self.parameters["topics"]))
        chosen = self._named or bag.topics.keys() - _NEVER
        self._ours = {topic: _renamed(topic, names) for topic in sorted(chosen) if bag.topics[topic].count}
        if not self._ours:
            where = " ".join(bag.damage) or "it has no messages."
            raise UserError(f"There is nothing to play in {bag.path}: {where}")
        for topic in self._ours:
            if bag.topics[topic].encoding != "cdr":
                raise UserError(
                    f"{bag.path} has no messages of ROS 2: those of {topic} are '{bag.topics[topic].encoding}'."
                )
        if topics.CLOCK in bag.topics and bag.topics[topics.CLOCK].count:
            self._ours.setdefault(topics.CLOCK, topics.CLOCK)
        until_s = self.parameters["until_s"] or 1e-9 * (bag.last_ns - bag.first_ns) + 1.0
        self._first_ns = bag.first_ns + round(1e9 * self.parameters["from_s"])
        self._last_ns = bag.first_ns + round(1e9 * until_s)
        if not self._first_ns < self._last_ns or self._first_ns > bag.last_ns:
            lasts = 1e-9 * (bag.last_ns - bag.first_ns)
            raise UserError(f"There is nothing between from_s and until_s: {bag.path} lasts {lasts:.1f} s.")
        end = time.monotonic() + _FOUND_S
        while time.monotonic() < end:
            time.sleep(0.05)
        if conflicts := [why for topic in self._ours if (why := self._conflict(topic))]:
            raise UserError(
                f"{' '.join(conflicts)} Play it where no robot is live, under another name (--remap"
                " /NAMESPACE:=/replay), or name each topic that you mean (--topics)."
            )
        self._senders: dict[str, Any] = {}
        for topic, name in list(self._ours.items()):
            told = bag.topics[topic]
            try:
                kind = topics.message_type(told.kind)
            except UserError as error:
                self.warn(f"{topic} is not played: {error}", topic)
                del self._ours[topic]
                continue
            use: topics.Quality = (
                "tf_static" if topic == topics.TF_STATIC else "latched" if told.is_latched else "event"
            )
            self._senders[topic] = self.publisher(kind, name, use)
        self._time_sender: Any = None
        if topics.CLOCK not in self._senders and not self.count_publishers(topics.CLOCK):
            self._time_sender = self.publisher(topics.type_of(topics.CLOCK), topics.CLOCK, "event")
        self._played = 0

    def activate(self) -> None:
        """Begin to play."""
        assert self._bag is not None
        self._coming = self._messages(self._bag)
        self._next = next(self._coming, None)
        self._began_at = self._looked_at = time.monotonic()
        self._told_at = 0.0
        self.every(_TICK_S, self._tick)

    def cleanup(self) -> None:
        """Close the bag."""
        bag, self._bag = getattr(self, "_bag", None), None
        if bag is not None:
            bag.close()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report how far it is."""
        if self._bag is None:
            return "", {}
        return "", {"bag": str(self._bag.path), "played": self._played, "at_s": round(self._at_s(), 1)}

    def _messages(self, bag: Bag) -> Iterator[Message]:
        """Yield what to publish: first what was said before and still holds."""
        latched = [topic for topic in self._ours if bag.topics[topic].is_latched]
        if latched and self._first_ns > bag.first_ns:
            held: dict[str, list[Message]] = {}
            for message in bag.messages(latched, 0, self._first_ns - 1):
                before = held.setdefault(message.topic, [])
                if message.topic != topics.TF_STATIC:  # each node says its own there
                    before.clear()
                before.append(message)
            for several in held.values():
                yield from several
        yield from bag.messages(list(self._ours), self._first_ns, self._last_ns)

    def _at_s(self) -> float:
        """Return the time in the bag, s after its first message."""
        return float(self.parameters["from_s"] + (time.monotonic() - self._began_at) * self.parameters["rate"])

    def _tick(self) -> None:
        began = time.monotonic()
        if began - self._looked_at >= _LOOK_S:
            self._looked_at = began
            self._give_way()
        due_ns = self._first_ns + round(1e9 * (began - self._began_at) * self.parameters["rate"])
        while self._next is not None and self._next.received_ns <= due_ns:
            publisher = self._senders.get(self._next.topic)
            if publisher is not None:
                publisher.publish(self._next.data)
                self._played += 1
            self._next = next(self._coming, None)
            if time.monotonic() - began > _BUSY_S:
                break
        if self._time_sender is not None and began - self._told_at >= _CLOCK_S:
            self._told_at = began
            self._tell_time(due_ns)
        if self._next is None:
            self._end()

    def _tell_time(self, at_ns: int) -> None:
        message = topics.type_of(topics.CLOCK)()
        message.clock.sec, message.clock.nanosec = divmod(at_ns, 10**9)
        self._time_sender.publish(message)

    def _end(self) -> None:
        assert self._bag is not None
        self._stop_timers()
        self.get_logger().info(f"Played {self._played} messages of {self._bag.path}.")
        for sentence in self._bag.damage:
            self.get_logger().warning(sentence)
        if self.parameters["autostart"]:
            os.kill(os.getpid(), signal.SIGTERM)  # the regular exit of every node: status 0

    # Live robots -----------------------------------------------------------------------------------------------

    def _conflict(self, topic: str) -> str:
        """Return why a topic is not played beside who is there; empty: nothing is in the way."""
        name = self._ours[topic]
        if topic in self._named:
            return ""
        others = [one for one in self.get_publishers_info_by_topic(name) if not self._is_own(one)]
        if others and name not in _OF_MANY:
            return f"{name} is published by {_full(others[0])} already."
        if not any(name.endswith(f"/{moving}") for moving in MOVING):
            return ""
        obey = [one for one in self.get_subscriptions_info_by_topic(name) if not one.node_name.startswith(SHOWING)]
        return f"{name} commands {_full(obey[0])}." if obey else ""

    def _give_way(self) -> None:
        """Stop topics that have come into conflict meanwhile."""
        for topic in list(self._senders):
            if why := self._conflict(topic):
                self.get_logger().error(f"{topic} is no longer played: {why}")
                del self._senders[topic]

    def _is_own(self, endpoint: Any) -> bool:
        return bool(endpoint.node_name == self.get_name() and endpoint.node_namespace == self.get_namespace())


def _full(endpoint: Any) -> str:
    return f"{endpoint.node_namespace.rstrip('/')}/{endpoint.node_name}"


def _pairs(remap: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return pairs of absolute names.

    Raises:
        UserError: One is not of the form from:=to.
    """
    pairs = []
    for word in remap:
        ours, mark, theirs = word.partition(":=")
        if not (ours.strip("/") and mark and theirs.strip("/")):
            raise UserError(f"remap: '{word}' is not allowed: give from:=to, such as /crazyflie:=/replay.")
        pairs.append((f"/{ours.strip('/')}", f"/{theirs.strip('/')}"))
    return pairs


def _renamed(topic: str, pairs: list[tuple[str, str]]) -> str:
    for ours, theirs in pairs:
        if topic == ours or topic.startswith(f"{ours}/"):
            return theirs + topic.removeprefix(ours)
    return topic


main = PlayNode.main

if __name__ == "__main__":
    raise SystemExit(main())
