"""A buffer of ``/tf``: timed transforms between frames, as tf2's, independent of ROS."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.tf_messages import Numbers, Transform
from rlstack.robots import frames

KEEP_NS = 10 * NANOSECONDS
"""How long transforms are kept, as by tf2."""
MOST_FRAMES, MOST_SAMPLES = 2000, 512
"""How many frames, and how many transforms of each, are kept."""
_UNIT_WITHIN = 1e-3
_SHOWN = 8
"""Number of frames that a refusal lists."""


class NoTransform(ValueError):
    """There is no such transform; the text is a clause that says why.

    Args:
        why: The reason.
        later: Whether it may come with a later message.
    """

    def __init__(self, why: str, later: bool = False) -> None:
        super().__init__(why)
        self.later = later


@dataclass(frozen=True)
class Placed:
    """The pose of one frame in another.

    Args:
        position: (3,) m.
        orientation: (4,) unit quaternion xyzw, that turns vectors of the frame into the other.
        stamp_ns: Its time; None: it is fixed.
    """

    position: Array
    orientation: Array
    stamp_ns: int | None = None

    def points(self, points: Array) -> Array:
        """Return points (..., 3), m, of the frame in the other one."""
        return self.position + frames.rotate(self.orientation, points)

    def turns(self, quaternions: Array) -> Array:
        """Return orientations (..., 4) in the frame as ones in the other."""
        return frames.multiply(self.orientation, quaternions)

    def after(self, other: Placed) -> Placed:
        """Return the pose of ``other``'s frame where this one's is given: first ``other``, then this."""
        stamps = [stamp for stamp in (self.stamp_ns, other.stamp_ns) if stamp is not None]
        at, turned = self.points(other.position), self.turns(other.orientation)
        return Placed(at, turned, min(stamps) if stamps else None)

    @property
    def inverse(self) -> Placed:
        """The pose of the other frame in this one."""
        back = frames.inverse(self.orientation)
        return Placed(-frames.rotate(back, self.position), back, self.stamp_ns)


Place = Callable[[str, int], Placed | None]
"""Returns the pose, in the frame wanted, of a message's ``frame_id`` at its stamp, ns; None: it is that frame.

It raises ``ValueError`` if it has none.
"""


def in_odom(frame: str, stamp_ns: int) -> None:
    """Take messages in ``odom`` only: a :data:`Place` for those who know no transforms."""
    if not topics.in_world(frame):
        raise ValueError(f"it is in the frame '{frame}': transform it and give it in {topics.WORLD_FRAME}")


HERE = Placed(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))


@dataclass
class _Edge:
    """A frame's pose in its parent, over time."""

    parent: str
    static: bool
    samples: deque[tuple[int, Numbers]] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))

    def add(self, stamp_ns: int, pose: Numbers) -> None:
        samples = self.samples
        if self.static or (samples and stamp_ns < samples[-1][0] - KEEP_NS):  # the clock began anew
            samples.clear()
        if not samples or stamp_ns > samples[-1][0]:
            samples.append((stamp_ns, pose))
        elif stamp_ns < samples[-1][0]:
            ordered = list(samples)
            k = bisect_left(ordered, stamp_ns, key=_stamp)
            if ordered[k][0] != stamp_ns:
                insort(ordered, (stamp_ns, pose), key=_stamp)
                self.samples = deque(ordered[-MOST_SAMPLES:], maxlen=MOST_SAMPLES)
        while self.samples[0][0] < self.samples[-1][0] - KEEP_NS:
            self.samples.popleft()

    def at(self, stamp_ns: int | None) -> Placed:
        """Return the pose at a time; None: the newest. Raise ``LookupError`` outside of the times known."""
        newest_ns, newest = self.samples[-1]
        if self.static:
            return _placed(newest, None)
        if stamp_ns is None or stamp_ns == newest_ns:
            return _placed(newest, newest_ns)
        if not self.samples[0][0] <= stamp_ns <= newest_ns:
            raise LookupError
        after = newest_ns, newest
        for before in reversed(self.samples):
            if before[0] <= stamp_ns:
                return _between(before, after, stamp_ns)
            after = before
        raise LookupError


class TransformBuffer:
    """The frames that ``/tf`` and ``/tf_static`` told of.

    Each frame has one parent. Transforms older than 10 s, of a time that has begun anew, or from another parent before
    are forgotten, and the numbers of frames and of transforms are bounded.
    """

    def __init__(self) -> None:
        self._edges: dict[str, _Edge] = {}
        self._parents: dict[str, set[str]] = {}
        self.refused = 0
        """Number of transforms that were no transforms."""
        self.last_refusal = ""

    @property
    def frames(self) -> tuple[str, ...]:
        """The names of all frames, sorted."""
        return tuple(sorted({*self._edges, *(edge.parent for edge in self._edges.values())}))

    def parent(self, frame: str) -> str:
        """Return a frame's parent; empty without one."""
        edge = self._edges.get(frame)
        return edge.parent if edge else ""

    def add(self, transforms: Iterable[Transform], *, static: bool) -> None:
        """Add transforms; ones without names, in themselves, not finite or without a direction are refused."""
        for one in transforms:
            parent, child = one.parent.lstrip("/"), one.child.lstrip("/")
            pose, why = one.pose, ""
            length = math.hypot(*pose[3:])
            if not parent or not child:
                why = "a transform without a frame"
            elif parent == child:
                why = f"a transform of {child} in itself"
            elif not all(map(math.isfinite, pose)) or not abs(length - 1.0) <= _UNIT_WITHIN:
                why = f"the transform from {parent} to {child} is not finite, or its rotation is no unit quaternion"
            elif child not in self._edges and len(self._edges) >= MOST_FRAMES:
                why = f"more than {MOST_FRAMES} frames"
            if why:
                self.refused += 1
                self.last_refusal = why
                continue
            edge = self._edges.get(child)
            if edge is None or edge.parent != parent or edge.static != static:
                parents = self._parents.setdefault(child, set())
                if len(parents) < _SHOWN:
                    parents.add(parent)
                edge = self._edges[child] = _Edge(parent, static)
            x, y, z, *turn = pose
            qx, qy, qz, qw = (part / length for part in turn)
            edge.add(one.stamp_ns, (x, y, z, qx, qy, qz, qw))

    def common(self, one: str, other: str) -> str:
        """Return the nearest frame that both frames descend from, or are.

        Raises:
            NoTransform: Either is unknown, or they are not connected.
        """
        above = list(self._up(one))
        found = next((frame for frame in self._up(other) if frame in above), None)
        known = self.frames
        for name in (one, other):
            if name not in known and one != other:
                raise NoTransform(f"there is no frame {name} on /tf; {_listed(known)}", later=True)
        if found is None:
            raise NoTransform(f"{one} and {other} are not connected; {_listed(known)}", later=True)
        return found

    def lookup(self, target: str, source: str, stamp_ns: int | None = None) -> Placed:
        """Return the pose of the frame ``source`` in ``target``, interpolated at a time.

        Args:
            target: The frame wanted.
            source: The frame given.
            stamp_ns: The time; None: the newest that is known of all transforms in between.

        Raises:
            NoTransform: A frame is unknown, they are not connected, or the time is outside of what is known.
        """
        above = self.common(target, source)
        if stamp_ns is None:
            edges = [*self._edges_to(target, above), *self._edges_to(source, above)]
            stamp_ns = min((e.samples[-1][0] for _, e in edges if not e.static), default=None)
        return self._in(above, target, stamp_ns).inverse.after(self._in(above, source, stamp_ns))

    def conflict(self, frame: str) -> str:
        """Return a clause if several parents of a frame were told of, which is one robot's work twice; or nothing."""
        parents = sorted(self._parents.get(frame, ()))
        return f"{frame} has several parents on /tf: {', '.join(parents)}" if len(parents) > 1 else ""

    def _up(self, frame: str) -> Iterator[str]:
        seen = set()
        while frame not in seen:
            seen.add(frame)
            yield frame
            if frame not in self._edges:
                return
            frame = self._edges[frame].parent
        raise NoTransform(f"the frames {', '.join(sorted(seen)[:_SHOWN])} form a circle", later=True)

    def _edges_to(self, frame: str, above: str) -> Iterator[tuple[str, _Edge]]:
        while frame != above:
            edge = self._edges[frame]
            yield frame, edge
            frame = edge.parent

    def _in(self, above: str, frame: str, stamp_ns: int | None) -> Placed:
        placed = HERE
        for child, edge in self._edges_to(frame, above):
            try:
                placed = edge.at(stamp_ns).after(placed)
            except LookupError:
                assert stamp_ns is not None
                first, last = edge.samples[0][0], edge.samples[-1][0]
                late = stamp_ns > last
                why = f"{_s(stamp_ns - last)} after the newest" if late else f"{_s(first - stamp_ns)} before the oldest"
                raise NoTransform(
                    f"the transform from {edge.parent} to {child} is needed {why} that is known", later=late
                ) from None
        return placed


def _stamp(sample: tuple[int, Numbers]) -> int:
    return sample[0]


def _s(span_ns: int) -> str:
    return f"{span_ns / NANOSECONDS:.3g} s"


def _placed(pose: Numbers, stamp_ns: int | None) -> Placed:
    return Placed(np.array(pose[:3]), np.array(pose[3:]), stamp_ns)


def _between(before: tuple[int, Numbers], after: tuple[int, Numbers], stamp_ns: int) -> Placed:
    share = (stamp_ns - before[0]) / max(after[0] - before[0], 1)
    one, other = np.array(before[1]), np.array(after[1])
    return Placed(one[:3] + share * (other[:3] - one[:3]), frames.slerp(one[3:], other[3:], share), stamp_ns)


def _listed(known: tuple[str, ...]) -> str:
    if not known:
        return "nothing publishes transforms"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"frames known: {', '.join(known[:_SHOWN])}{more}"
