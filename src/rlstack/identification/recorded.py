"""Read what a robot was commanded and what it measured from bags, as arrays with times on one clock."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.data.bags.bag import Bag
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, NameOrder, stamp_to_ns
from rlstack.interfaces.signals import signal_named
from rlstack.interfaces.topics import COMMANDS

APART_S = 0.1
"""Stamps of two topics that differ by more than this for messages that arrive together are from different clocks:
transport and computation take less."""

DRIFT_S = 0.005
"""Most that such clocks may move against each other over a recording: half of a control period at 100 Hz."""

_TICKS = (topics.ODOM, topics.IMU, topics.JOINT_STATES)
"""Topics whose stamps tell what time it is on the sensors' clock when a command comes."""

_LATE_S = 0.01
"""A command that comes later than this after its observation is told of."""

_JITTER_S = 0.003
"""Likewise times of commands that vary by more than this: a step of the rotor speeds that counts from 3 ms too early
turns a small quadrotor by half a radian within a second."""

SHORTEST_S = 5.0
"""Least duration of a recording."""


@dataclass(frozen=True)
class Track:
    """The messages of one topic, in the order of their times.

    Args:
        topic: Its name in the robot's namespace.
        time_s: (n,) when it was measured, or of a command the stamp of the observation that it answers, s since the
            first message of the reference; strictly increasing.
        values: By signal, (n, width).
    """

    topic: str
    time_s: Array
    values: Mapping[str, Array]

    @property
    def period_s(self) -> float:
        """Usual time between two messages."""
        return float(np.median(np.diff(self.time_s)))

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True)
class Recorded:
    """What one bag says of one robot.

    Args:
        path: The bag.
        tracks: By topic.
        notes: Sentences on damage, clocks and what was left out.
    """

    path: Path
    tracks: Mapping[str, Track]
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Time from the first to the last message of any topic."""
        ends = [(track.time_s[0], track.time_s[-1]) for track in self.tracks.values()]
        return max(end for _, end in ends) - min(begin for begin, _ in ends)


@dataclass
class _Rows:
    stamp_ns: list[int] = field(default_factory=list)
    received_ns: list[int] = field(default_factory=list)
    values: list[tuple[Array, ...]] = field(default_factory=list)


def read_recording(
    path: str | Path,
    signals: Sequence[str],
    *,
    reference: str,
    names: Mapping[str, Sequence[str]] | None = None,
    optional: Collection[str] = (),
    readers: Mapping[str, Callable[[Any], Array]] | None = None,
    namespace: str = "",
    shortest_s: float = SHORTEST_S,
    instead: Mapping[str, str] | None = None,
    answers: bool = False,
) -> Recorded:
    """Read a robot's signals and commands from a bag, as far as it can be read.

    Args:
        path: The bag's folder, or one of its files.
        signals: Names of :data:`rlstack.interfaces.signals.SENSED` and ``COMMANDED``.
        reference: The signal on whose topic's clock all times are.
        names: Order of the elements of those that have names.
        optional: Signals that may be missing.
        readers: How signals that are more than a field are read from their messages.
        namespace: Namespace of the robot; empty: the only one with the reference's topic.
        shortest_s: Least duration.
        instead: Topics that are read instead of others, by these, where the bag has them.
        answers: Whether a command's time is the stamp of the observation that it answers, and not when it came.

    Raises:
        UserError: A topic is missing or has no messages, its messages are those of another robot or type, clocks drift
            apart, or the recording is too short.
    """
    path = Path(path)
    wanted: dict[str, dict[str, str]] = {}
    for name in signals:
        signal = signal_named(name)
        wanted.setdefault(signal.topic, {})[name] = signal.field
    clock = signal_named(reference).topic
    orders = {name: NameOrder(order) for name, order in (names or {}).items()}
    own = readers or {}
    with Bag(path) as bag:
        if not bag.topics:
            raise UserError(f"{path} cannot be read as a bag: {' '.join(bag.damage) or 'it has no topics.'}")
        space = _namespace(namespace, clock, bag.topics, path)
        read_from = {topic: f"{space}/{topic}" for topic in wanted}
        read_from |= {
            topic: name for topic, other in (instead or {}).items() if (name := f"{space}/{other}") in bag.topics
        }
        present = {topic: read_from[topic] for topic in wanted if read_from[topic] in bag.topics}
        needed = {t for t, fields in wanted.items() if not set(fields) <= set(optional)}
        if missing := sorted(needed - set(present)):
            raise UserError(
                f"{path} has no topic {', '.join(f'{space}/{topic}' for topic in missing)}, and without it nothing can"
                f" be told. It has: {', '.join(bag.topics)}. `rlstack record` records all topics of a robot."
            )
        rows = {topic: _Rows() for topic in present}
        names_ = {full: topic for topic, full in present.items()}
        ticks: list[tuple[int, int]] = []
        heard = {f"{space}/{topic}" for topic in _TICKS} & set(bag.topics)
        for message in bag.messages({*names_, *heard}):
            if message.topic in heard:
                ticks.append((message.received_ns, header_stamp(message.data)))
            if message.topic not in names_:
                continue
            topic = names_[message.topic]
            read = bag.deserialize(message)
            try:
                values = tuple(
                    own[name](read) if name in own else _value(read, path_, orders.get(name))
                    for name, path_ in wanted[topic].items()
                )
            except (AttributeError, ValueError, IndexError) as error:
                raise UserError(
                    f"{path}: {message.topic} does not fit the robot: {error}. Name the robot that was recorded with"
                    " --robot, and its namespace with --namespace."
                ) from error
            if any(not value.size for value in values):
                continue  # "off": no command
            header = getattr(read, "header", None)
            rows[topic].stamp_ns.append(0 if header is None else stamp_to_ns(header.stamp))
            rows[topic].received_ns.append(message.received_ns)
            rows[topic].values.append(values)
        notes = [f"{sentence} What lies before counts." for sentence in bag.damage]
    for topic in sorted(needed):
        if len(rows[topic].values) < _least(topic):
            raise UserError(f"{path} has no messages on {space}/{topic} that say anything.")
    said_something = {t: r for t, r in rows.items() if len(r.values) >= _least(t)}
    tracks, said = _on_one_clock(said_something, clock, wanted, path, [] if answers else ticks)
    recorded = Recorded(path, tracks, (*notes, *said))
    if recorded.tracks[clock].time_s[-1] < shortest_s:
        has = f"{recorded.tracks[clock].time_s[-1]:.1f} s of {space}/{clock}"
        raise UserError(f"{path} has {has}, and at least {shortest_s:g} s are needed. {' '.join(notes)}".strip())
    return recorded


def _least(topic: str) -> int:
    """Return the least number of a topic's messages: one that holds says something alone."""
    return 1 if topic in topics.LATCHED else 2


def _namespace(given: str, topic: str, topics: Collection[str], path: Path) -> str:
    if given:
        return "/" + given.strip("/")
    found = sorted(name.removesuffix(f"/{topic}") for name in topics if name.endswith(f"/{topic}"))
    found = [space for space in found if not space.endswith("/policy")]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"{path} has no topic {topic} of any robot. It has: {', '.join(topics)}.")
    raise UserError(f"{path} has {len(found)} robots, {', '.join(found)}: choose one with --namespace.")


def _value(message: Any, path: str, order: NameOrder | None) -> Array:
    """Return a field, or several with ", " between, of a message as numbers."""
    if ", " in path:
        return np.concatenate([_value(message, part, order) for part in path.split(", ")])
    if path.startswith("points[]."):  # a trajectory of one point
        if not len(message.points):
            return np.empty(0)
        names, values = list(message.joint_names), getattr(message.points[0], path.removeprefix("points[]."))
        values = np.array(values, dtype=float)
        return values if order is None else order.arrange(tuple(names), lambda: names, values)
    value = message
    for part in path.split("."):
        value = getattr(value, part)
    if hasattr(value, "x"):
        return np.array([getattr(value, axis) for axis in "xyzw" if hasattr(value, axis)], dtype=float)
    array = np.atleast_1d(np.array(value, dtype=float))
    if order is None or not array.size:
        return array
    names = list(message.name)
    return order.arrange(tuple(names), lambda: names, array)


def _on_one_clock(
    rows: Mapping[str, _Rows],
    clock: str,
    wanted: Mapping[str, Mapping[str, str]],
    path: Path,
    ticks: list[tuple[int, int]],
) -> tuple[dict[str, Track], list[str]]:
    """Return the topics with times on the reference's clock, and sentences about those that had another one."""
    reference = rows[clock]
    stamps = np.array(reference.stamp_ns, dtype=np.int64)
    received = np.array(reference.received_ns, dtype=np.int64)
    stamped = bool((stamps > 0).any())
    own = stamps if stamped else received
    first = int(own.min())
    ahead = (received - own) / NANOSECONDS  # how much later than its stamp it was received
    notes, tracks = [], {}
    for topic, found in rows.items():
        arrived = np.array(found.received_ns, dtype=np.int64)
        at = np.array(found.stamp_ns, dtype=np.int64)
        later = np.interp(arrived, received, ahead)
        held = topic in topics.LATCHED  # from whenever it came: its sender may have another clock
        if (at > 0).any() and stamped and not held:
            seconds = (at - first) / NANOSECONDS
            apart = (arrived - at) / NANOSECONDS - later
            offset = float(np.median(apart))
            if topic != clock and abs(offset) > APART_S:
                third = max(len(apart) // 3, 1)
                drift = float(np.median(apart[-third:]) - np.median(apart[:third]))
                if abs(drift) > DRIFT_S:
                    raise UserError(
                        f"{path}: the stamps of {topic} and of {clock} are from two clocks that move by"
                        f" {1e3 * abs(drift):.0f} ms against each other over the recording; at most"
                        f" {1e3 * DRIFT_S:g} ms are allowed. Synchronise the clocks (NTP, PTP), and record again."
                    )
                seconds = seconds + offset
                notes.append(
                    f"The stamps of {topic} are {offset:+.3f} s off those of {clock}, by the times of receipt: they"
                    " were shifted by that, which leaves the difference of the two topics' transport as an error."
                )
            elif topic in COMMANDS and ticks:
                answered, seconds = seconds, _arrivals(arrived, at, ticks, first)
                early, *late_s = np.quantile(seconds - answered, [0.05, 0.5, 0.95])
                if late_s[1] - early > _JITTER_S:
                    notes.append(
                        f"{topic} came after times that vary by {1e3 * (late_s[1] - early):.0f} ms, and when the robot"
                        " took it is known no better: fast turns are predicted worse for that. Record a simulator in"
                        " lock step (--lock-step)."
                    )
                if late_s[1] > _LATE_S:
                    notes.append(
                        f"{topic} came {1e3 * late_s[0]:.0f} ms after the observations that it answers, and one in"
                        f" twenty more than {1e3 * late_s[1]:.0f} ms: it counts from when it came."
                    )
        else:
            seconds = (arrived - first) / NANOSECONDS - later
            if not held and (topic != clock or not stamped):
                notes.append(f"{topic} has no stamps: its times are those of its receipt.")
        tracks[topic] = _sorted(topic, seconds, found.values, tuple(wanted[topic]))
    return tracks, notes


def header_stamp(data: bytes) -> int:
    """Return the stamp, ns, of a serialized message that begins with a header."""
    seconds, nanoseconds = struct.unpack_from("<iI" if data[1] & 1 else ">iI", data, 4)
    return int(seconds) * NANOSECONDS + int(nanoseconds)


def _arrivals(arrived: NDArray[np.int64], stamp: NDArray[np.int64], ticks: list[tuple[int, int]], first: int) -> Array:
    """Return when commands came, s, on the clock of the sensors: at the newest stamp that was out by then.

    A simulation's time does not pass evenly, so the times of receipt alone do not tell. A command cannot come before
    the observation that it answers.

    Args:
        arrived: (n,) receipt, ns.
        stamp: (n,) of the observations that they answer, ns.
        ticks: Receipt and stamp, ns, of all messages of the fastest sensors.
        first: The time that counts as 0, ns.
    """
    received, stamps = np.array(sorted(ticks), dtype=np.int64).T
    newest = np.maximum.accumulate(stamps)
    last = np.searchsorted(received, arrived, side="right") - 1
    return np.asarray((np.maximum(newest[last.clip(0)], stamp) - first) / NANOSECONDS)


def _sorted(topic: str, seconds: Array, values: Sequence[tuple[Array, ...]], signals: Sequence[str]) -> Track:
    """Return a track in the order of its times; of messages with one time the last."""
    order = np.argsort(seconds, kind="stable")
    ordered = seconds[order]
    last: NDArray[np.intp] = np.flatnonzero(np.append(np.diff(ordered) > 0.0, True))
    chosen = order[last]
    arrays = {name: np.array([values[k][column] for k in chosen]) for column, name in enumerate(signals)}
    return Track(topic, ordered[last], arrays)
