"""Sends goals to a robot and watches what its guard and its policy make of them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

from rlstack.interfaces import topics

TAKEN_WITHIN_S = 3.0
"""A goal that is not pursued after this long was refused, or nothing hears it."""
SILENT_S = 3.0
"""A distance that is not published for this long is no longer measured."""
HANDED_BACK_WITHIN_S = 3.0
"""A guard that has turned the robot back, and lets the policy command again within this, has not ended the goal."""
_SAME_M = 1e-3
_POLICY = "policy"
"""The guard's mode in which the policy commands."""

OFF = ("disarmed", "estop")
"""The guard's modes in which the robot does not move."""


@dataclass(frozen=True)
class Outcome:
    """What has become of a goal.

    Args:
        state: ``sent`` until the policy pursues it, then ``pursued`` until it is ``reached`` or has ``failed``.
        why: Why it has failed.
        cause: The same as a word: the guard has it ``off`` or has ``taken over``, it was ``refused``, ``not taken``
            or ``replaced``, or the distance is ``silent``.
    """

    state: Literal["sent", "pursued", "reached", "failed"]
    why: str = ""
    cause: Literal["", "off", "taken over", "refused", "not taken", "replaced", "silent"] = ""


class GoalWatch:
    """Follows the goals of one robot.

    Args:
        node: A node, whose executor serves the subscriptions.
        within: What precedes the robot's topics: its namespace and a slash; empty: the node's own namespace.
        sends: Whether goals are sent, too; otherwise :meth:`send` must not be called.
    """

    def __init__(self, node: Any, within: str = "", sends: bool = True) -> None:
        self.mode, self.reason = "", ""
        self.interventions = -1
        """Number of takeovers; -1: not known yet."""
        self.active: Any = None
        """The goal that is pursued, a ``geometry_msgs/PoseStamped``; None: none is known."""
        self.instruction: str | None = None
        """The sentence that is followed; empty: the policy waits for one; None: it says of none."""
        self.distance_m = math.nan
        self.reached = False
        self._distance_at = -math.inf
        self._sent_at: float | None = None
        self._intervened = 0
        self._intervened_at = -math.inf
        self._pursued: Any = None
        self._replaced = False
        self._refusal = ""

        self._node = node
        self._subscriptions: list[Any] = []

        def subscribe(topic: str, callback: Any, use: topics.Quality) -> None:
            kind, quality = topics.type_of(topic), topics.quality(use)
            self._subscriptions.append(node.create_subscription(kind, within + topic, callback, quality))

        subscribe(topics.GOAL_REFUSED, self._on_refused, "event")  # first: it is there once a latched goal has come
        subscribe(topics.GUARD_REASON, self._on_reason, "latched")
        subscribe(topics.GUARD_MODE, self._on_mode, "latched")
        subscribe(topics.GUARD_INTERVENTIONS, self._on_interventions, "latched")
        subscribe(topics.GOAL_ACTIVE, self._on_active, "latched")
        subscribe(topics.INSTRUCTION_ACTIVE, self._on_instruction, "latched")
        subscribe(topics.GOAL_DISTANCE, self._on_distance, "event")
        subscribe(topics.GOAL_REACHED, self._on_reached, "latched")
        self._goal_topic = within + topics.GOAL_ACTIVE
        kind, quality = topics.type_of(topics.GOAL), topics.quality("latched")
        self._goals: Any = node.create_publisher(kind, within + topics.GOAL, quality) if sends else None

    def close(self) -> None:
        """Leave the robot's topics."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        if self._goals is not None:
            self._node.destroy_publisher(self._goals)

    @property
    def heard(self) -> bool:
        """Whether the guard's mode is known, and something hears goals and says what it pursues."""
        known = bool(self.mode) and self.interventions >= 0 and self.active is not None
        return known and self._goals is not None and self._goals.get_subscription_count() > 0

    @property
    def only_instructed(self) -> bool:
        """Whether the guard's mode is known, and the policy takes instructions, and nothing says of a goal."""
        told = bool(self.mode) and self.instruction is not None and self.active is None
        return told and not self._node.count_publishers(self._node.resolve_topic_name(self._goal_topic))

    @property
    def is_off(self) -> bool:
        """Whether the robot is disarmed or stopped, so that it moves to no goal."""
        return self.mode in OFF

    def send(self, pose: Any) -> None:
        """Send a goal, a ``geometry_msgs/PoseStamped``, in place of the one before."""
        self._sent_at, self._intervened = time.monotonic(), self.interventions
        self._pursued, self._replaced, self._refusal = None, False, ""
        self._goals.publish(pose)

    def outcome(self) -> Outcome:
        """Return what has become of the goal that was sent last."""
        if self._sent_at is None:
            return Outcome("failed", "no goal was sent", "not taken")
        now = time.monotonic()
        if self.interventions > self._intervened and self.mode == _POLICY:
            self._intervened = self.interventions
        intervenes = self.interventions > self._intervened and now - self._intervened_at > HANDED_BACK_WITHIN_S
        if self.is_off or intervenes:
            return Outcome("failed", self.taken_over, "off" if self.is_off else "taken over")
        if self._pursued is None:
            if self._refusal:
                return Outcome("failed", self._refusal, "refused")
            if now - self._sent_at < TAKEN_WITHIN_S:
                return Outcome("sent")
            why = f"the goal was not taken within {TAKEN_WITHIN_S:g} s, and nothing says why"
            return Outcome("failed", why, "not taken")
        if self._replaced:
            return Outcome("failed", "another goal replaced it", "replaced")
        if self.reached:
            return Outcome("reached")
        if now - max(self._distance_at, self._sent_at) > SILENT_S:
            return Outcome("failed", "the policy or planner no longer reports its distance from the goal", "silent")
        return Outcome("pursued")

    @property
    def taken_over(self) -> str:
        """What the guard does instead, and why."""
        return f"the guard is in the mode {self.mode}{f' ({self.reason})' if self.reason else ''}"

    def _on_mode(self, message: Any) -> None:
        self.mode = message.data

    def _on_reason(self, message: Any) -> None:
        self.reason = message.data

    def _on_interventions(self, message: Any) -> None:
        if message.data > self.interventions:
            self._intervened_at = time.monotonic()
        self.interventions = message.data

    def _on_refused(self, message: Any) -> None:
        if self._sent_at is not None and self._pursued is None:
            self._refusal = message.data.rstrip(".")

    def _on_active(self, message: Any) -> None:
        before, self.active = self._pursued, message
        if self._sent_at is None:
            return
        if before is None:
            self._pursued, self.reached = message, False
        elif _apart_m(before, message) > _SAME_M:
            self._replaced = True

    def _on_instruction(self, message: Any) -> None:
        self.instruction = message.data

    def _on_distance(self, message: Any) -> None:
        self.distance_m, self._distance_at = message.data, time.monotonic()

    def _on_reached(self, message: Any) -> None:
        self.reached = message.data


def _apart_m(one: Any, other: Any) -> float:
    a, b = one.pose.position, other.pose.position
    return math.dist((a.x, a.y, a.z), (b.x, b.y, b.z))
