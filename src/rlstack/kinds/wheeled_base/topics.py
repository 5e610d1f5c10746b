"""Wheeled bases on the robot node's topics: twists, which expire and then stop the base."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Signals
from rlstack.interfaces.twist_messages import TwistReader
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard
from rlstack.kinds.wheeled_base.guard_config import SCAN
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.nodes.command_messages import FOLLOWS, ROBOTS_TWIST_TYPE, TWIST_TYPE, without_stamps
from rlstack.nodes.frames import frames_of
from rlstack.nodes.goal_subscriptions import GoalReceiver
from rlstack.nodes.goal_topics import GoalPoint
from rlstack.nodes.kind_topics import GuardSubscriptions, KindTopics, simulated
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.nodes.sensor_readers import SCAN_PARAMETERS, scan_every_ns, scan_reader
from rlstack.nodes.topic_watch import type_name
from rlstack.robots import frames

_TOLERANCE_M = 0.2
"""Distance at which a goal is reached; a policy's node has a parameter for it."""
_SLACK_NS = 1000
"""Tolerance for rounded stamps."""


class ScanAndGoalSubscriptions(GuardSubscriptions):
    """Subscribes to scans, and to the goals of a fallback planner; in lock step scans are processed without an answer.

    See :class:`rlstack.nodes.kind_topics.GuardSubscriptions`.
    """

    def __init__(self, node: Any, guard: WheeledBaseGuard) -> None:
        super().__init__(node, guard)
        self.counts |= dict.fromkeys(("blocked", "scans", "scans refused"), 0)
        self._every_ns = 0
        self._goal: GoalReceiver | None = None
        if (lidar := guard.protective_stop.lidar) is not None or SCAN in guard.fallback.inputs:
            lidar = lidar or guard.robot.lidars[SCAN]
            self._read = scan_reader(lidar, node.parameters, self._placed)
            self._placed.receivers["scan"] = self._on_scan
            self._every_ns = scan_every_ns(lidar)
            node.subscriber(topics.message_type(topics.SCAN_TYPE), SCAN, self._on_scan, self._quality, raw=True)
        goals = [name for name in guard.fallback.inputs if name.startswith("goal_")]
        if goals:
            place = np.array(node.parameters["goal_position"])
            if np.isfinite(place).all():
                guard.on_signals({"goal_position": place, "goal_orientation": np.array([0.0, 0.0, 0.0, 1.0])})
            config = guard.config
            limits = guard.robot.goal_limits().changed(config.geofence_min_m, config.geofence_max_m)
            self._goal = GoalReceiver(node, self._listener, frames_of(node.parameters), limits, self._on_goal)

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether a scan that belongs to the observation of ``stamp_ns`` is still in transit (lock step)."""
        if not self._guard.needs_scan:
            return False
        return not stamp_ns - self._every_ns + _SLACK_NS < self._newest_ns <= stamp_ns

    def _on_scan(self, data: bytes) -> None:
        if (received := self._received("scan", self._read, data)) is None:
            return
        stamp, signals = received
        if (times := self._node.times_of(stamp)) is None:
            return
        self.counts["scans"] += 1
        self._newest_ns = stamp
        self._node.on_decision(self._guard.on_scan(*times, signals["scan"], answer=not self._node.lock_step))

    def start(self) -> None:
        """Begin to follow goals in other frames."""
        super().start()
        if self._goal is not None:
            self._goal.start()

    def _on_goal(self, position: Array, orientation: Array, *, moved: bool) -> None:
        self._guard.on_signals({"goal_position": position, "goal_orientation": orientation})


class WheeledBaseTopics(KindTopics):
    """See :class:`rlstack.nodes.kind_topics.KindTopics`."""

    PARAMETERS = (ROBOTS_TWIST_TYPE,)
    GUARD_PARAMETERS = (
        Parameter("fallback", "stop", "Fallback when the policy cannot drive: stop, or a planner such as dwa."),
        Parameter(
            "goal_position",
            (math.nan, math.nan, math.nan),
            "Goal of a fallback planner until one arrives on the topic, m in odom.",
            nan=True,
        ),
        *SCAN_PARAMETERS,
        TWIST_TYPE,
    )
    GUARD_SUBSCRIPTIONS = ScanAndGoalSubscriptions
    COMMAND_TYPE = TWIST_TYPE
    observed = topics.ODOM

    def __init__(self, robot: WheeledBase, parameters: ParameterSet) -> None:
        robot.require_simulable()
        super().__init__(robot, parameters)
        self._follows = parameters[TWIST_TYPE.name] == FOLLOWS
        self._read = TwistReader(plain=without_stamps(TWIST_TYPE, parameters))
        self.command_type = self._read.type
        self.timeout_s = robot.limits.command_timeout_s

    @classmethod
    def goal_point(cls, robot: WheeledBase, inputs: Collection[str]) -> GoalPoint:
        """Return the base's place on the floor."""
        return GoalPoint(axes=2, tolerance_m=_TOLERANCE_M)

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return the twist (2,), m/s and rad/s."""
        return self._read(data)

    def follow(self, types: Collection[str]) -> bool:
        """See :meth:`rlstack.nodes.kind_topics.KindTopics.follow`: TwistStamped, or Twist."""
        known = {topics.type_of(topics.TWIST_COMMAND): False, topics.message_type(topics.PLAIN_TWIST): True}
        there = [kind for kind in known if type_name(kind) in types]
        if not self._follows or len(there) != 1 or there[0] is self.command_type:
            return False
        self._read = TwistReader(plain=known[there[0]])
        self.command_type = self._read.type
        return True

    def moves(self, command: Signals) -> bool:
        """Return whether the command drives or turns."""
        return bool(command["twist"].any())

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return the start pose in the world's map; None without one: on its wheels at its place."""
        super().start_state(backend, height_m)
        if (robot := simulated(backend)) is None or robot.index:
            return None
        simulation = robot.simulation
        drawn = None if simulation.world is None else simulation.world.floor_map
        if drawn is None or not np.array_equal(simulation.starts_m[0][:2], drawn.start[:2]):
            return None
        place = simulation.starts_m[0] + np.array([0.0, 0.0, self._robot.rest_height_m])
        return {"position": place, "orientation": frames.from_yaw(drawn.start[2])}


TOPICS = WheeledBaseTopics
