"""What the guard of a wheeled base hears besides odometry and commands: scans, and what a fallback planner needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlstack.errors import UserError, unknown_name
from rlstack.guard import Decision
from rlstack.interfaces import topics
from rlstack.interfaces.messages import Reader, field_reader
from rlstack.interfaces.scan_data import ScanReader, scan_geometry
from rlstack.interfaces.signals import SENSED
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard
from rlstack.kinds.wheeled_base.guard_config import SCAN, WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.nodes.goal_path import QUALITIES
from rlstack.nodes.readers import scan_every_ns

STOP = "stop"


def base_guard(robot: WheeledBase, config: WheeledBaseGuardConfig, fallback: str) -> WheeledBaseGuard:
    """Return the guard of a base with its fallback: ``stop``, or the name of a planner.

    Raises:
        UserError: There is no such planner.
    """
    if fallback == STOP:
        return WheeledBaseGuard(robot, config)
    from rlstack.control.navigation import PLANNERS

    if fallback not in PLANNERS.names():
        raise unknown_name("fallback", fallback, [STOP, *PLANNERS.names()])
    driver = PLANNERS.load(fallback)(robot)
    if unheard := set(driver.inputs) - {*_HEARD, *_OBSERVED}:
        raise UserError(f"The planner {fallback} needs {', '.join(sorted(unheard))}, which the guard does not hear.")
    return WheeledBaseGuard(robot, config, driver)


_OBSERVED = ("position", "orientation", "linear_velocity", "angular_velocity")
_HEARD = ("scan", "goal_position", "goal_orientation")


class BaseSenses:
    """Subscribes to scans and goals for the guard of a base.

    Args:
        node: The guard node, with the parameters of :data:`rlstack.nodes.readers.SCAN_PARAMETERS`.
        guard: The guard.
        clock: Returns the time and the seconds of a stamp, ns, on the node's clock; None before there is one.
        take: Called with what the guard decides on a scan.
        lock_step: Scans are taken in without an answer.
    """

    def __init__(
        self,
        node: Any,
        guard: WheeledBaseGuard,
        clock: Callable[[int], tuple[float, float] | None],
        take: Callable[[Decision], None],
        lock_step: bool,
    ) -> None:
        self._node, self._guard, self._clock, self._take, self._lock_step = node, guard, clock, take, lock_step
        self.scans, self.refused = 0, 0
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
        """Return whether a scan that goes with the observation of ``stamp_ns`` is still on its way (lock step)."""
        if not self._guard.needs_scan:
            return False
        return not stamp_ns - self._every_ns + _SLACK_NS < self._newest_ns <= stamp_ns

    def forget(self) -> None:
        """Begin another flight."""
        self._newest_ns = -1

    def _on_scan(self, data: bytes) -> None:
        if not self._node.active:
            return
        try:
            stamp, signals = self._read(data)
        except ValueError as error:
            self.refused += 1
            self._node.warn(f"A scan was refused: {error}.", "scan")
            return
        if (times := self._clock(stamp)) is None:
            return
        now_s, stamp_s = times
        self.scans += 1
        self._newest_ns = stamp
        self._take(self._guard.on_scan(now_s, stamp_s, signals["scan"], answer=not self._lock_step))

    def _on_goal(self, message: Any) -> None:
        if topics.in_world(message.header.frame_id):
            self._guard.on_signals({name: read(message) for name, read in self._goal})


_SLACK_NS = 1000
"""For stamps that were rounded."""
