"""Goals and paths as a robot's nodes receive them: in its own frame, allowed, each message once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.path_messages import GoalPath, read_path_data
from rlstack.interfaces.transform_buffer import NoTransform
from rlstack.nodes.frames import Frames
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.nodes.transform_listener import TransformListener
from rlstack.robots import RobotSpec
from rlstack.robots.goal_limits import GoalLimits

QUALITIES: tuple[topics.Quality, ...] = ("latched", "command")
"""QoS of the two subscriptions that a goal or a path needs: some publishers latch, RViz does not."""

TWICE_WITHIN_S = 0.5
"""Period in which duplicates are dropped: both subscriptions receive a latching publisher's message."""
REFUSED_S = 10.0
"""How long diagnostics report a refused goal."""
_PERIOD_S = 0.1
"""Period at which goals that wait for a transform are tried, and ones in another frame are followed."""
_SAME = 1e-4
"""m, and parts of a quaternion: smaller changes of a transform leave the goal where it is."""

BAD_GOAL = "A goal was refused: its position must be finite and its orientation a unit quaternion."

GOAL_PARAMETERS = (
    Parameter(
        "geofence_min_m", (), "Lower corner of the box that goals must be in, m; empty: the robot's.", each=float
    ),
    Parameter("geofence_max_m", (), "Upper corner of that box, m; empty: the robot's.", each=float),
    Parameter("workspace_min_m", (), "The same for an arm's goals, m in base_link; empty: the robot's.", each=float),
    Parameter("workspace_max_m", (), "Upper corner of that box, m; empty: the robot's.", each=float),
    Parameter("floor_m", 0.0, "Height of the floor in odom, m, below which goals of robots that fly are refused."),
)
"""Parameters of nodes that take goals, named as the guard's limits that the goals must respect."""


def goal_limits(robot: RobotSpec | None, parameters: ParameterSet) -> GoalLimits | None:
    """Return where a robot's goals may be, with :data:`GOAL_PARAMETERS`; None: anywhere.

    Raises:
        UserError: The corners have another number of coordinates than the robot's.
    """
    limits = None if robot is None else robot.goal_limits()
    if limits is None:
        return None
    corners = [parameters[f"{limits.name}_{end}_m"] for end in ("min", "max")]
    for corner, end in zip(corners, ("min", "max")):
        if corner and len(corner) != len(limits.low_m):
            raise UserError(
                f"{limits.name}_{end}_m: {list(corner)} is not allowed: must be {len(limits.low_m)} numbers."
            )
    return limits.changed(corners[0], corners[1], parameters["floor_m"])


def is_goal(values: Mapping[str, Array]) -> bool:
    """Return whether a goal's position is finite and its orientation, if read, a unit quaternion."""
    orientation = values.get("goal_orientation")
    unit = orientation is None or abs(float(np.linalg.norm(orientation)) - 1.0) <= 1e-3
    return unit and all(np.isfinite(value).all() for value in values.values())


class OnPath(Protocol):
    """Callback for a path."""

    def __call__(self, path: GoalPath, *, from_now: bool, moved: bool) -> None:
        """Use the path; with ``from_now`` its stamps count from the newest observation.

        With ``moved`` it is the path in use, in another place, because its frame moved.
        """


class OnGoal(Protocol):
    """Callback for a goal."""

    def __call__(self, position: Array, orientation: Array, *, moved: bool) -> None:
        """Use the goal (3,) m and (4,) xyzw; with ``moved`` it is the one in use, whose frame moved."""


class PathListener:
    """The callback for serialized messages on ``goal_path``.

    A path whose ``header.stamp`` is zero starts on arrival: its poses' stamps then count from the newest observation,
    so that a path sent by hand needs no clock.

    Args:
        on_path: Called with the stamp, ns, and the content of each new path, in the message's frames.
        refuse: Called with a sentence about an invalid path; the previous one stays.
    """

    def __init__(self, on_path: Callable[[int, GoalPath], None], refuse: Callable[[str], Any]) -> None:
        self.kind = topics.type_of(topics.GOAL_PATH)
        self._on_path, self._refuse = on_path, refuse
        self._last, self._last_at = b"", 0.0

    def __call__(self, data: bytes) -> None:
        """Process a message."""
        now = time.monotonic()
        again = data == self._last and now - self._last_at < TWICE_WITHIN_S
        self._last, self._last_at = data, now
        if again:
            return
        try:
            stamp_ns, path = read_path_data(data)
        except ValueError as error:
            self._refuse(str(error))
            return
        self._on_path(stamp_ns, path)


@dataclass
class _Given:
    """A goal, or the poses of a path, as received.

    Args:
        what: ``goal`` or ``path``.
        frames: Of each pose, or one for all.
        stamp_ns: When it holds in a frame that moves; 0: now.
        position: (poses, 3) m.
        orientation: (poses, 4) xyzw.
        use: Called with both, in the robot's frame, and whether it is in use already.
        until: When a missing transform is no longer waited for.
    """

    what: str
    frames: Sequence[str]
    stamp_ns: int
    position: Array
    orientation: Array
    use: Callable[[Array, Array, bool], None]
    until: float


class GoalReceiver:
    """Subscribes to goals and paths, and passes on those that are allowed, in the frame that the robot's are in.

    Goals in another frame are transformed. One in a frame that ``odom`` itself moves in, such as ``map``, is followed:
    it is transformed again whenever that transform changes. One in a frame that moves with the robot, such as
    ``base_link``, is transformed once, at its stamp, or now without one; a path likewise at its ``header.stamp``, pose
    by pose. Goals wait ``transform_timeout_s`` for their transform. Refused ones leave the goal before in place.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`); call :meth:`start` when it is activated.
        listener: What it knows of ``/tf``.
        frames: The robot's.
        limits: Where goals may be; None: anywhere.
        on_goal: Called with a goal; None: goals are not subscribed to.
        on_path: Called with a path; None: paths are not subscribed to.
        on_refused: Called with the sentence on a goal or path that is refused.
    """

    def __init__(
        self,
        node: Any,
        listener: TransformListener,
        frames: Frames,
        limits: GoalLimits | None,
        on_goal: OnGoal | None = None,
        on_path: OnPath | None = None,
        on_refused: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._node, self._listener, self._frames, self._limits = node, listener, frames, limits
        self._on_goal, self._on_path, self._on_refused = on_goal, on_path, on_refused
        self._waiting: _Given | None = None
        self._followed: _Given | None = None
        self._used: tuple[Array, Array] | None = None
        self._refusal, self._refused_at = "", -np.inf
        self._lost = ""
        self._last: tuple[Any, ...] = ()
        self._last_at = 0.0
        for use in QUALITIES if on_goal is not None else ():
            node.subscriber(topics.type_of(topics.GOAL), topics.GOAL, self._hear_goal, use)
        if on_path is not None:
            paths = PathListener(self._hear_path, self._refuse)
            for use in QUALITIES:
                node.subscriber(paths.kind, topics.GOAL_PATH, paths, use, raw=True)

    @property
    def warning(self) -> str:
        """Why the last goal was refused, for some seconds, or is no longer followed; empty if all is well."""
        if time.monotonic() - self._refused_at < REFUSED_S:
            return self._refusal
        return self._lost

    def start(self) -> None:
        """Begin to wait for transforms and to follow them."""
        self._node.every(_PERIOD_S, self._look)

    def forget(self) -> None:
        """Follow no goal: another one came from elsewhere."""
        self._waiting = self._followed = None
        self._lost = ""

    def refusal(self, position: Array) -> str:
        """Return why a position (3,) m is no goal; empty if it is one."""
        return "" if self._limits is None else self._limits.refusal(position)

    def _hear_goal(self, message: Any) -> None:
        p, q, frame = message.pose.position, message.pose.orientation, message.header.frame_id
        key, now = (frame, stamp_to_ns(message.header.stamp), p.x, p.y, p.z, q.x, q.y, q.z, q.w), time.monotonic()
        again = key == self._last and now - self._last_at < TWICE_WITHIN_S
        self._last, self._last_at = key, now
        if again:
            return
        place, turn = np.array([p.x, p.y, p.z]), np.array([q.x, q.y, q.z, q.w])
        if not is_goal({"goal_position": place, "goal_orientation": turn}):
            self._refuse(BAD_GOAL)
            return
        assert self._on_goal is not None
        use = self._on_goal

        def pursue(position: Array, orientation: Array, moved: bool) -> None:
            use(position[0], orientation[0], moved=moved)

        self._take("goal", [frame], key[1], place[None], turn[None], pursue)

    def _hear_path(self, stamp_ns: int, path: GoalPath) -> None:
        assert self._on_path is not None
        use = self._on_path

        def follow(position: Array, orientation: Array, moved: bool) -> None:
            use(GoalPath(path.stamp_ns, position, orientation), from_now=stamp_ns == 0, moved=moved)

        self._take("path", path.frames, stamp_ns, path.position, path.orientation, follow)

    def _take(
        self, what: str, frames: Sequence[str], stamp_ns: int, position: Array, orientation: Array, use: Any
    ) -> None:
        until = time.monotonic() + self._listener.timeout_s
        named = [frame.lstrip("/") for frame in frames]
        self._waiting = _Given(what, named, stamp_ns, position, orientation, use, until)
        self._try()

    def _look(self) -> None:
        if self._waiting is not None:
            self._try()
        elif self._followed is not None:
            self._follow(self._followed)

    def _try(self) -> None:
        """Use the goal that waits, if its transform has come; refuse it if it does not come."""
        given = self._waiting
        assert given is not None
        try:
            anchored = self._anchored(given)
            position, orientation = self._placed(anchored)
        except NoTransform as error:
            if not error.later or time.monotonic() > given.until:
                self._waiting = None
                self._refuse(
                    f"A {given.what} in the frame {_named(given.frames)} was refused: {error}.{self._advice()}"
                )
            return
        except UserError as error:
            self._waiting = None
            self._refuse(f"A {given.what} in the frame {_named(given.frames)} was refused: {error}")
            return
        self._waiting = None
        if why := self._outside(position):
            self._refuse(f"A {given.what} was refused: {why}.")
            return
        self._followed = None if all(map(self._frames.is_world, anchored.frames)) else anchored
        self._refused_at, self._lost = -np.inf, ""
        self._used = position, orientation
        given.use(position, orientation, False)

    def _follow(self, goal: _Given) -> None:
        """Move the goal in use with the frame that it is given in."""
        try:
            position, orientation = self._placed(goal)
        except NoTransform as error:
            self._lost = f"the {goal.what} in {_named(goal.frames)} stays where it was: {error}"
            self._node.warn(f"{self._lost[0].upper()}{self._lost[1:]}.", "lost transform")
            return
        if why := self._outside(position):
            self._lost = f"the {goal.what} in {_named(goal.frames)} stays where it was: {why}"
            self._node.warn(f"{self._lost[0].upper()}{self._lost[1:]}.", "goal outside")
            return
        self._lost = ""
        assert self._used is not None
        if all(np.allclose(new, old, rtol=0.0, atol=_SAME) for new, old in zip((position, orientation), self._used)):
            return
        self._used = position, orientation
        goal.use(position, orientation, True)

    def _anchored(self, given: _Given) -> _Given:
        """Return the same in frames that do not move with the robot: those in which ``odom`` moves, or ``odom``."""
        if all(map(self._frames.is_world, given.frames)):
            return given
        self._listener.start()
        world = self._frames.world
        position, orientation = given.position.copy(), given.orientation.copy()
        frames = list(given.frames) if len(given.frames) > 1 else list(given.frames) * len(position)
        for frame in dict.fromkeys(frames):
            if self._frames.is_world(frame):
                continue
            rows = [k for k, name in enumerate(frames) if name == frame]
            anchor = self._listener.buffer.common(world, frame)
            pose = self._listener.lookup(anchor, frame, given.stamp_ns or None)
            position[rows], orientation[rows] = pose.points(position[rows]), pose.turns(orientation[rows])
            for k in rows:
                frames[k] = anchor
        return _Given(given.what, frames, 0, position, orientation, given.use, given.until)

    def _placed(self, anchored: _Given) -> tuple[Array, Array]:
        """Return positions and orientations in the robot's frame, by the newest transforms."""
        if all(map(self._frames.is_world, anchored.frames)):
            return anchored.position, anchored.orientation
        position, orientation = anchored.position.copy(), anchored.orientation.copy()
        for frame in dict.fromkeys(anchored.frames):
            if not self._frames.is_world(frame):
                rows = [k for k, name in enumerate(anchored.frames) if name == frame]
                pose = self._listener.lookup(self._frames.world, frame)
                position[rows], orientation[rows] = pose.points(position[rows]), pose.turns(orientation[rows])
        return position, orientation

    def _outside(self, position: Array) -> str:
        if self._limits is None or self._limits.contains(position):
            return ""
        for k, place in enumerate(position):
            if why := self._limits.refusal(place):
                return why if len(position) == 1 else f"at pose {k} (of 0 to {len(position) - 1}), {why}"
        return ""

    def _advice(self) -> str:
        odom, tool = self._frames.odom, "ros2 run tf2_ros static_transform_publisher"
        return (
            f" Give it in {self._frames.goal}, or publish the transform on {topics.TF}: localization or the map node"
            f" does, or, where both are the same, `{tool} --frame-id map --child-frame-id {odom}`."
        )

    def _refuse(self, sentence: str) -> None:
        self._refusal, self._refused_at = sentence, time.monotonic()
        self._node.warn(sentence)
        self._on_refused(sentence)


def _named(frames: Sequence[str]) -> str:
    return ", ".join(f"'{frame}'" for frame in dict.fromkeys(frames))
