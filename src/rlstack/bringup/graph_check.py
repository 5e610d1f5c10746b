"""`rlstack doctor --graph`: what a running system's topics carry, measured, and what is wrong with it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import Any

from rlstack.bringup.robot_commands.robot_client import SETTLED_S, RobotClient
from rlstack.errors import MalformedMessage, UserError
from rlstack.interfaces import topics
from rlstack.interfaces.cdr import compile_reader
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.node_names import name_of
from rlstack.interfaces.tf_messages import read_tf
from rlstack.nodes.executor import serve
from rlstack.nodes.topic_watch import all_incompatible, listed
from rlstack.text_table import aligned

_HIDDEN = ("/rosout", "/parameter_events")
_STEADY = (topics.ODOM, topics.IMU, topics.JOINT_STATES, topics.SCAN)
"""Topics that a robot publishes all the time."""
_POLL_S = 0.001
_REGULAR = 5
"""Messages from which a topic has a rate."""
_NEAR_NS = 60 * NANOSECONDS
"""Stamps farther from a clock than this are not its."""


@dataclass
class Traffic:
    """One topic: who is on it, and what was heard of it."""

    name: str
    types: list[str]
    publishers: list[Any]
    subscribers: list[Any]
    arrived_s: list[float] = field(default_factory=list)
    ages_s: list[float] = field(default_factory=list)
    """From the stamp to the arrival, by the clock that the stamps follow."""
    clocks: Counter[str] = field(default_factory=Counter)
    frames: set[str] = field(default_factory=set)

    @property
    def rate_hz(self) -> float | None:
        """Mean rate; None if too few messages arrived to call it one, as of events."""
        span = self.arrived_s[-1] - self.arrived_s[0] if len(self.arrived_s) >= _REGULAR else 0.0
        return (len(self.arrived_s) - 1) / span if span > 0.0 else None


@dataclass(frozen=True)
class Graph:
    """A running system: problems first, then a table for each robot."""

    robots: tuple[str, ...]
    traffic: tuple[Traffic, ...]
    problems: tuple[str, ...]
    clock: str

    def text(self) -> str:
        """Format it."""
        found = [f"- {problem}" for problem in self.problems] or ["Nothing is wrong."]
        parts = ["\n".join(found), f"Clock: {self.clock}"]
        left = list(self.traffic)
        for robot in sorted(self.robots, key=len, reverse=True):
            own = [one for one in left if one.name.startswith(f"{robot.rstrip('/')}/")]
            left = [one for one in left if one not in own]
            parts.append(_table(robot, own))
        return "\n\n".join([*parts, *([_table("common", left)] if left else [])])


def examine(seconds: float) -> Graph:
    """Listen to all topics of the ROS domain for a time, and return what is there.

    Raises:
        UserError: ROS is not installed or cannot start, or no topic of another node is there.
    """
    with RobotClient() as client:
        client.spin(2.0 * SETTLED_S)
        robots = (*client.guarded(), *client.unguarded())
        listener = _Listener(client.node)
        if not listener.traffic:
            raise UserError(client.nobody())
        listener.listen(seconds)
        listener.look()
        found = tuple(listener.traffic.values())
        return Graph(robots, found, tuple(dict.fromkeys(listener.problems())), listener.clock())


class _Listener:
    """Subscriptions to every topic that somebody publishes."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._own = f"/{node.get_name()}"
        self._clock_ns: int | None = None
        self._parents: dict[str, str] = {}
        self.traffic: dict[str, Traffic] = {}
        self.look()
        self._subscriptions = [self._listen(one) for one in self.traffic.values() if one.publishers]

    def listen(self, seconds: float) -> None:
        """Take messages for a time, straight from the subscriptions: an executor falls behind a robot's sensors."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for one in filter(None, self._subscriptions):
                while serve(one, lambda *refused: None):
                    pass
            time.sleep(_POLL_S)

    def look(self) -> None:
        """Read who publishes and subscribes to what."""
        for name, types in self._node.get_topic_names_and_types():
            if name in _HIDDEN:
                continue
            ends = [
                [one for one in read(name) if name_of(one) != self._own]
                for read in (self._node.get_publishers_info_by_topic, self._node.get_subscriptions_info_by_topic)
            ]
            if any(ends):
                here = self.traffic.setdefault(name, Traffic(name, types, [], []))
                here.publishers, here.subscribers = ends

    def _listen(self, one: Traffic) -> Any:
        try:
            kind = topics.message_type(one.types[0])
        except UserError:
            return None
        read = None
        with suppress(UserError):
            read = compile_reader(kind, ("header.stamp.sec", "header.stamp.nanosec", "header.frame_id"))
        if one.name == topics.CLOCK:
            read = compile_reader(kind, ("clock.sec", "clock.nanosec"))

        def heard(data: bytes) -> None:
            one.arrived_s.append(time.monotonic())
            with suppress(MalformedMessage, ValueError):
                if one.name in (topics.TF, topics.TF_STATIC):
                    self._parents |= {each.child: each.parent for each in read_tf(data)}
                elif one.name == topics.CLOCK and read is not None:
                    second, nanosecond = read(data)
                    self._clock_ns = second * NANOSECONDS + nanosecond
                elif read is not None:
                    second, nanosecond, frame = read(data)
                    self._stamped(one, second * NANOSECONDS + nanosecond, frame)

        use: topics.Quality = "tf_static" if one.name == topics.TF_STATIC else "sensor_in"
        quality = topics.quality(use)
        quality.depth = 100
        return self._node.create_subscription(kind, one.name, heard, quality, raw=True)

    def _stamped(self, one: Traffic, stamp_ns: int, frame: str) -> None:
        if frame:
            one.frames.add(frame)
        for clock, now_ns in (("/clock", self._clock_ns), ("wall", time.time_ns())):
            if now_ns is not None and abs(now_ns - stamp_ns) < _NEAR_NS:
                one.clocks[clock] += 1
                one.ages_s.append((now_ns - stamp_ns) / NANOSECONDS)
                return
        one.clocks["neither"] += 1

    def clock(self) -> str:
        """Return which clock stamps follow."""
        seen = Counter[str]()
        for one in self.traffic.values():
            seen.update({one.clocks.most_common(1)[0][0]: 1} if one.clocks else {})
        shown = ", ".join(f"{count} topics by {name}" for name, count in seen.most_common())
        return f"{'/clock is published' if self._clock_ns is not None else 'wall time'}; {shown or 'no stamps'}"

    def problems(self) -> Iterator[str]:
        """Yield what is wrong."""
        for one in self.traffic.values():
            yield from _on_topic(one)
            if one.clocks and self._clock_ns is not None and "/clock" not in one.clocks:
                yield f"{one.name}: its stamps do not follow /clock, which others do: set use_sim_time there."
            elif one.clocks and set(one.clocks) == {"neither"}:
                yield f"{one.name}: its stamps are no clock's: unset, or of a machine with another time."
        yield from self._frames()

    def _frames(self) -> Iterator[str]:
        if not self._parents:
            return
        tops = {self._top(frame) for frame in self._parents}
        if len(tops) > 1:
            yield f"Frames are not connected: {listed(sorted(tops))} have no common parent on /tf and /tf_static."
        known = set(self._parents) | set(self._parents.values())
        for one in self.traffic.values():
            for frame in sorted(one.frames - known):
                yield f"{one.name}: its frame {frame} is not on /tf or /tf_static."

    def _top(self, frame: str) -> str:
        seen = {frame}
        while (above := self._parents.get(frame, "")) and above not in seen:
            seen.add(above)
            frame = above
        return frame


def _on_topic(one: Traffic) -> Iterator[str]:
    """Yield what is wrong with a topic's types, qualities of service, publishers and messages."""
    if len(one.types) > 1:
        yield f"{one.name}: it has several types, {listed(one.types)}: some of its nodes do not hear each other."
    for (source, writers), (sink, readers) in product(_by_node(one.publishers), _by_node(one.subscribers)):
        # a node may read a topic by several qualities, of which one suffices
        if why := all_incompatible([(a.qos_profile, b.qos_profile) for a, b in product(writers, readers)]):
            yield (
                f"{one.name}: {sink} receives nothing from {source} ({why}): see docs/topics.md for the quality of"
                " service to use."
            )
    part = one.name.rpartition("/")[2]
    names = sorted({_name(publisher) for publisher in one.publishers})
    if len(names) > 1 and (part in _STEADY or one.name.endswith(topics.COMMANDS)):
        yield f"{one.name}: {len(names)} nodes publish it: {listed(names)}. Stop all but one of them."
    if part in _STEADY and one.publishers and not one.arrived_s:
        yield f"{one.name}: nothing arrives from {listed(names)}."


def _by_node(endpoints: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Return endpoints by the names of their nodes."""
    found: dict[str, list[Any]] = {}
    for one in endpoints:
        found.setdefault(_name(one), []).append(one)
    return sorted(found.items())


def _name(endpoint: Any) -> str:
    return name_of(endpoint) or "a program that is no ROS node"


def _table(title: str, traffic: Sequence[Traffic]) -> str:
    rows: list[tuple[str, ...]] = [(title, "Hz", "age ms", "from", "to")]
    for one in sorted(traffic, key=lambda one: one.name):
        rate = one.rate_hz
        age = median(one.ages_s) if one.ages_s and rate is not None else None  # what is latched may be old
        ends = (", ".join(sorted({_name(end) for end in ends})) or "-" for ends in (one.publishers, one.subscribers))
        shown = ("-" if rate is None else f"{rate:.1f}", "-" if age is None else f"{1e3 * age:.1f}")
        rows.append((one.name, *shown, *ends))
    return "\n".join(aligned(rows))
