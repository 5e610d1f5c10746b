"""Guard node extensions of wheeled bases: parameters, scans, and goals of a fallback planner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlstack.guard import Decision
from rlstack.interfaces import topics
from rlstack.interfaces.laser_scans import ScanReader, scan_geometry
from rlstack.interfaces.messages import Reader, field_reader
from rlstack.interfaces.signals import SENSED
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard
from rlstack.kinds.wheeled_base.guard_config import SCAN
from rlstack.nodes.goal_path import QUALITIES
from rlstack.nodes.guard_parameters import NAN, OWN, STALENESS, unset
from rlstack.nodes.kind_topics import GuardSenses, SeenClock
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.readers import SCAN_PARAMETERS, scan_every_ns

PARAMETERS = (
    unset("linear_acceleration_m_s2", "Fastest change of the commanded speed, m/s^2", 0, otherwise=OWN),
    unset("angular_acceleration_rad_s2", "Fastest change of the commanded turning, rad/s^2", 0, otherwise=OWN),
    Parameter("overspeed", 1.5, "Measured speeds beyond so many times the limit are a fault.", minimum=1.0),
    Parameter("protective_stop", True, "Brake for what the lidar called scan sees."),
    Parameter("clearance_m", 0.02, "What the protective stop keeps free around the robot, m.", minimum=0.0),
    Parameter("reaction_s", 0.25, "How long the robot goes on until braking begins, s.", minimum=0.0),
    unset("scan_timeout_s", "Age from which a scan is not believed, s", 0.001, otherwise="2.5 turns of the lidar"),
    Parameter("jump_m", 0.1, "Odometry further than this from where its speed leads has jumped, m.", minimum=0.001),
    Parameter("jump_rad", 0.35, "Likewise its heading, rad.", minimum=0.001),
    STALENESS,
    Parameter("stand_before_disarming_s", 10.0, "How long a stopped robot waits for a late policy, s.", minimum=0.0),
    Parameter("fallback", "stop", "What drives when the policy cannot: stop, or a planner such as dwa."),
    Parameter(
        "goal_position",
        (NAN, NAN, NAN),
        "Where a planner drives as fallback until a goal comes on the topic, m in odom.",
        nan=True,
    ),
    *SCAN_PARAMETERS,
)

_SLACK_NS = 1000
"""Tolerance for rounded stamps."""


class ScanSenses(GuardSenses):
    """Subscribes to scans and goals for the guard of a base.

    Args:
        node: The guard node.
        guard: The guard.
        clock: The node's clock.
        take: Called with the guard's decision on a scan.
        lock_step: Scans are processed without an answer.
    """

    def __init__(
        self,
        node: Any,
        guard: WheeledBaseGuard,
        clock: SeenClock,
        take: Callable[[Decision], None],
        lock_step: bool,
    ) -> None:
        self._node, self._guard, self._clock, self._take, self._lock_step = node, guard, clock, take, lock_step
        self.counts = dict.fromkeys(("blocked", "scans", "scans refused"), 0)
        self._every_ns, self._newest_ns = 0, -1
        if (lidar := guard.protective_stop.lidar) is not None or SCAN in guard.fallback.inputs:
            lidar = lidar or guard.robot.lidars[SCAN]
            frame = node.parameters["scan_frame"]
            wanted = scan_geometry(lidar)
            self._read = ScanReader(wanted, (frame,) if frame else (), zero_is_far=node.parameters["zero_is_far"])
            self._every_ns = scan_every_ns(lidar)
            quality: topics.Quality = "sensor_in_reliable" if lock_step else "sensor_in"
            node.subscriber(topics.message_type(topics.SCAN_TYPE), SCAN, self._on_scan, quality, raw=True)
        goals = [name for name in guard.fallback.inputs if name.startswith("goal_")]
        if goals:
            place = np.array(node.parameters["goal_position"])
            if np.isfinite(place).all():
                guard.on_signals({"goal_position": place, "goal_orientation": np.array([0.0, 0.0, 0.0, 1.0])})
            kind = topics.type_of(topics.GOAL)
            self._goal: list[tuple[str, Reader]] = [(n, field_reader(kind, SENSED[n].field)) for n in goals]
            for use in QUALITIES:
                node.subscriber(kind, topics.GOAL, self._on_goal, use)

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether a scan that belongs to the observation of ``stamp_ns`` is still in transit (lock step)."""
        if not self._guard.needs_scan:
            return False
        return not stamp_ns - self._every_ns + _SLACK_NS < self._newest_ns <= stamp_ns

    def forget(self) -> None:
        """Start another episode."""
        self._newest_ns = -1

    def _on_scan(self, data: bytes) -> None:
        if not self._node.active:
            return
        try:
            stamp, signals = self._read(data)
        except ValueError as error:
            self.counts["scans refused"] += 1
            self._node.warn(f"A scan was refused: {error}.", "scan")
            return
        if (times := self._clock(stamp)) is None:
            return
        now_s, stamp_s = times
        self.counts["scans"] += 1
        self._newest_ns = stamp
        self._take(self._guard.on_scan(now_s, stamp_s, signals["scan"], answer=not self._lock_step))

    def _on_goal(self, message: Any) -> None:
        if topics.in_world(message.header.frame_id):
            self._guard.on_signals({name: read(message) for name, read in self._goal})
