"""The goal that a policy or planner pursues, its distance, and whether it is reached, on topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, pose_message
from rlstack.robots import frames

PERIOD_S = 0.1
"""Period of the distance."""
SETTLED_S = 0.5
"""A goal is reached once the robot has been within the tolerance for this long: it did not only fly past."""

Signals = Mapping[str, Array]


@dataclass(frozen=True)
class GoalPoint:
    """The point of a robot, or of what it handles, that is to reach the goal.

    Args:
        position: Returns it, (3,) m in the goal's frame, from the policy's inputs; None if they do not have it.
        axes: How many of its coordinates count: 2 on the ground.
        tolerance_m: Distance at which the goal is reached.
    """

    position: Callable[[Signals], Array | None] = lambda signals: signals.get("position")
    axes: int = 3
    tolerance_m: float = 0.1


class GoalTopics:
    """Publishes ``goal/active``, ``goal/distance``, ``goal/reached`` and ``goal/refused`` of a policy's node.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`).
        point: What is to reach the goal.
        frame: The frame of goals.
    """

    def __init__(self, node: Any, point: GoalPoint, frame: str = topics.WORLD_FRAME) -> None:
        names = (topics.GOAL_ACTIVE, topics.GOAL_DISTANCE, topics.GOAL_REACHED, topics.GOAL_REFUSED)
        uses: tuple[topics.Quality, ...] = ("latched", "event", "latched", "event")
        self._types = {name: topics.type_of(name) for name in names}
        self._publishers = {name: node.publisher(self._types[name], name, use) for name, use in zip(names, uses)}
        self._point, self._frame = point, frame
        self._stamp_ns = -1
        self._goal: Array | None = None
        self._within_ns: int | None = None
        self._reached: bool | None = None

    def taken(self) -> None:
        """Publish the goal again when it is next pursued, even if it is the same: its sender hears that it counts."""
        self._goal, self._within_ns, self._reached = None, None, None

    def refused(self, sentence: str) -> None:
        """Publish why a goal was refused."""
        self._send(topics.GOAL_REFUSED, sentence)

    def publish(self, stamp_ns: int, signals: Signals, arrived: bool | None = None) -> None:
        """Publish what has changed since the last answered observation; nothing without a new one.

        Args:
            stamp_ns: Stamp of the observation that was answered last.
            signals: The inputs that it was answered on.
            arrived: Whether a planner says that it has arrived; None: the distance says it.
        """
        goal = pursued(signals)
        if goal is None or stamp_ns == self._stamp_ns:
            return
        self._stamp_ns = stamp_ns
        position, orientation = goal
        pose = np.concatenate([position, orientation])
        if self._goal is None or not np.allclose(pose, self._goal, rtol=0.0, atol=1e-6):
            self._goal = pose
            self._within_ns = None
            active = pose_message(position, orientation, stamp_ns=stamp_ns, frame=self._frame)
            self._publishers[topics.GOAL_ACTIVE].publish(active)
        place = self._point.position(signals)
        if place is None:
            return
        axes = self._point.axes
        distance_m = float(np.linalg.norm(place[:axes] - position[:axes]))
        self._send(topics.GOAL_DISTANCE, distance_m)
        reached = self._is_within(distance_m) if arrived is None else arrived
        if reached != self._reached:
            self._reached = reached
            self._send(topics.GOAL_REACHED, reached)

    def present(self, signals: Signals) -> dict[str, Array] | None:
        """Return the goal that holds the present position and heading; None: the signals do not have it."""
        place = self._point.position(signals)
        if place is None:
            return None
        wanted = pursued(signals)
        turn = signals.get("orientation", np.array([0.0, 0.0, 0.0, 1.0]) if wanted is None else wanted[1])
        heading = frames.from_yaw(frames.yaw(turn)) if "orientation" in signals else turn
        return {"goal_position": np.array(place), "goal_orientation": heading}

    def _is_within(self, distance_m: float) -> bool:
        if distance_m > self._point.tolerance_m:
            self._within_ns = None
            return False
        if self._within_ns is None or self._within_ns > self._stamp_ns:
            self._within_ns = self._stamp_ns
        return self._stamp_ns - self._within_ns >= SETTLED_S * NANOSECONDS

    def _send(self, topic: str, value: Any) -> None:
        self._publishers[topic].publish(self._types[topic](data=value))


def has_goal(inputs: Collection[str]) -> bool:
    """Return whether a policy with these inputs pursues a goal or a path."""
    return "goal_position" in inputs or {"path_time", "path_position"} <= set(inputs)


def pursued(signals: Signals) -> tuple[Array, Array] | None:
    """Return position (3,) m and orientation (4,) xyzw of the goal among a policy's inputs; of a path, what is due."""
    ahead = np.array([0.0, 0.0, 0.0, 1.0])
    if "goal_position" in signals:
        return signals["goal_position"], signals.get("goal_orientation", ahead)
    if "path_time" in signals and "path_position" in signals:
        times, points = signals["path_time"], signals["path_position"]
        due = np.array([np.interp(0.0, times, points[:, axis]) for axis in range(3)])
        turns = signals.get("path_orientation")
        return due, ahead if turns is None else turns[max(int(np.searchsorted(times, 0.0, side="right")) - 1, 0)]
    return None
