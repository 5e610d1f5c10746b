"""Scans with the pose at which each was taken, by odometry: what mapping and tracking build on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.timing import JUMP_NS
from rlstack.nodes.frames import FRAME_PARAMETERS, frames_of
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.placed_messages import PlacedMessages
from rlstack.nodes.sensor_readers import SCAN_PARAMETERS, scan_reader
from rlstack.nodes.transform_listener import TRANSFORM_TIMEOUT, TransformListener
from rlstack.robots import Lidar, frames

PARAMETERS: tuple[Parameter, ...] = (*SCAN_PARAMETERS, *FRAME_PARAMETERS, TRANSFORM_TIMEOUT)
"""Parameters of nodes that use scans with their pose."""

JUMP_M = 1.0
"""A larger step between two odometry messages is a jump, as a jump of the stamps is."""

_POSES, _SCANS = 256, 16
"""How many recent poses, and how many scans that wait for their odometry, are kept."""

Pose = tuple[float, float, float]
"""x and y, m, and yaw, rad, in ``odom``."""


class PosedScans:
    """Subscribes to ``scan`` and ``odom``, and passes each scan on once odometry covers its stamp.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`), with :data:`PARAMETERS`; messages count while it is
            active.
        lidar: The lidar called scan.
        on_scan: Called with a scan's stamp, ns, its ranges (rays,) m and its pose.
        on_jump: Called when time or place jumped; earlier scans are dropped.
        quality: Quality of service of both subscriptions.
    """

    def __init__(
        self,
        node: Any,
        lidar: Lidar,
        on_scan: Callable[[int, Array, Pose], None],
        on_jump: Callable[[], None],
        quality: topics.Quality = "sensor_in",
    ) -> None:
        self._node, self._on_scan, self._on_jump = node, on_scan, on_jump
        self.counts = dict.fromkeys(("scans", "scans without odometry", "scans refused"), 0)
        """Figures for diagnostics; the node counts the scans that it used."""
        self._poses, self._waiting = Poses(), deque[tuple[int, Array]](maxlen=_SCANS)
        self.transforms = TransformListener(node, lambda: None)
        self._placed = PlacedMessages(self.transforms, frames_of(node.parameters))
        self._placed.receivers[topics.SCAN] = self._scan
        self._refusal = ""
        odometry = topics.type_of(topics.ODOM)
        self._read_odometry = SignalReader(odometry, {n: SENSED[n].field for n in ("position", "orientation")})
        self._read_scan = scan_reader(lidar, node.parameters, self._placed)
        node.subscriber(odometry, topics.ODOM, self._odometry, quality, raw=True)
        node.subscriber(topics.message_type(topics.SCAN_TYPE), topics.SCAN, self._scan, quality, raw=True)

    def status(self) -> tuple[str, dict[str, Any]]:
        """Return a warning if the newest scan was refused or none was used yet, and the figures for diagnostics."""
        unused = "" if self.counts["scans"] else "no scan with matching odometry yet"
        return self._refusal or unused, dict(self.counts)

    def clear(self) -> None:
        """Drop the scans that wait for their odometry."""
        self._waiting.clear()

    def _odometry(self, data: bytes) -> None:
        if not self._node.active:
            return
        stamp, seen = self._read_odometry(data)
        if not all(np.isfinite(v).all() for v in seen.values()):
            return
        if self._poses.add(stamp, seen["position"], float(frames.yaw(seen["orientation"]))):
            self.clear()
            self._on_jump()
        while self._waiting and self._waiting[0][0] <= stamp:
            self._use(*self._waiting.popleft())

    def _scan(self, data: bytes) -> None:
        if not self._node.active:
            return
        try:
            stamp, signals = self._read_scan(data)
        except ValueError as error:
            if not self._placed.waits(topics.SCAN, data, error):
                self.counts["scans refused"] += 1
                self._refusal = f"a scan was refused: {error}"
                self._node.warn(f"A scan was refused: {error}.", "scan")
            return
        self._placed.came(topics.SCAN)
        self._refusal = ""
        if stamp <= self._poses.newest_ns:
            self._use(stamp, signals["scan"])
        else:
            self._waiting.append((stamp, signals["scan"]))

    def _use(self, stamp_ns: int, scan: Array) -> None:
        pose = self._poses.at(stamp_ns)
        if pose is None:
            self.counts["scans without odometry"] += 1
        else:
            self._on_scan(stamp_ns, scan, pose)


class Poses:
    """Recent poses of the robot."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, float, float, float]] = deque(maxlen=_POSES)

    def add(self, stamp_ns: int, position: Array, yaw: float) -> bool:
        """Add a pose; return whether time or place jumped, which clears the poses before."""
        jumped = False
        if self._kept:
            then, x, y, _ = self._kept[-1]
            if -JUMP_NS < stamp_ns - then < 0:
                return False  # out of order: the newest is kept
            far = float(np.hypot(position[0] - x, position[1] - y)) > JUMP_M
            jumped = far or not 0 <= stamp_ns - then <= JUMP_NS
            if jumped:
                self._kept.clear()
        self._kept.append((stamp_ns, float(position[0]), float(position[1]), yaw))
        return jumped

    @property
    def newest_ns(self) -> int:
        """The last stamp; -1 if there is none."""
        return self._kept[-1][0] if self._kept else -1

    def at(self, stamp_ns: int) -> Pose | None:
        """Return the pose at a time, interpolated between two; None if it is outside them."""
        for after, before in zip(reversed(self._kept), list(reversed(self._kept))[1:]):
            if before[0] <= stamp_ns <= after[0]:
                part = (stamp_ns - before[0]) / max(after[0] - before[0], 1)
                turn = float(frames.wrap_angle(np.float64(after[3] - before[3])))
                return (
                    before[1] + part * (after[1] - before[1]),
                    before[2] + part * (after[2] - before[2]),
                    before[3] + part * turn,
                )
        if self._kept and stamp_ns == self._kept[-1][0]:
            return self._kept[-1][1:]
        return None
