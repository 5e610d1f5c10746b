"""The map node: builds an occupancy grid from scans and odometry, for viewers and planners."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation.body import Body
from rlstack.control.navigation.driver import Motion, Scanner
from rlstack.control.navigation.occupancy import GridSettings, OccupancyGrids
from rlstack.interfaces import topics
from rlstack.interfaces.laser_scans import ScanReader, scan_geometry
from rlstack.interfaces.map_data import Occupancy, map_message
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.timing import JUMP_NS
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.readers import SCAN_PARAMETERS
from rlstack.nodes.runtime import ManagedNode, run_nodes
from rlstack.robots import frames, load_robot

PARAMETERS = (
    Parameter("robot", "turtlebot3_burger", "Name or file of the robot, which has a lidar called scan."),
    Parameter("resolution_m", 0.05, "Side of a cell, m.", minimum=0.005, maximum=10.0),
    Parameter("size_m", 20.0, "Side of the map, m; it moves on with the robot.", minimum=1.0, maximum=200.0),
    Parameter("rate_hz", 1.0, "How often a map that has changed is published, Hz.", minimum=0.01, maximum=20.0),
    *SCAN_PARAMETERS,
)

JUMP_M = 1.0
"""A larger step between two odometry messages is a jump, which clears the map, as a jump of the stamps does."""

_POSES = 256


class Poses:
    """Recent poses of the robot."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, float, float, float]] = deque(maxlen=_POSES)

    def add(self, stamp_ns: int, position: Array, yaw: float) -> bool:
        """Add a pose; return whether time or place jumped, which clears the poses before."""
        jumped = False
        if self._kept:
            then, x, y, _ = self._kept[-1]
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

    def at(self, stamp_ns: int) -> tuple[float, float, float] | None:
        """Return x, y and yaw at a time, interpolated between two poses; None if it is outside them."""
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


class MapNode(ManagedNode):
    """Publishes ``map``, in the frame ``odom``: the occupancy grid of a base's scans so far.

    Each scan is placed by odometry. There is no loop closure: the map is as accurate as the odometry.

    Args:
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__("map", PARAMETERS, overrides, **options)

    def configure(self) -> None:
        """Create the topics.

        Raises:
            UserError: The robot is not a base, or has no lidar called scan.
        """
        robot = load_robot(self.parameters["robot"])
        lidar = Body.of(robot).lidar(topics.SCAN)
        resolution = self.parameters["resolution_m"]
        cells = min(max(round(self.parameters["size_m"] / resolution), 16), 4096)
        self._scanner = Scanner(lidar)
        self._grids = OccupancyGrids(
            self._scanner,
            GridSettings(resolution_m=resolution, cells=cells, sight_m=lidar.range_max_m, rays=lidar.rays),
        )
        self._poses, self._waiting = Poses(), deque[tuple[int, Array]](maxlen=16)
        self._changed, self._stamp_ns = False, 0
        self._counts = dict.fromkeys(("scans", "scans without odometry", "scans refused", "maps", "jumps"), 0)
        odometry = topics.type_of(topics.ODOM)
        fields = {name: SENSED[name].field for name in ("position", "orientation")}
        self._read_odometry = SignalReader(odometry, fields)
        frame = self.parameters["scan_frame"]
        self._read_scan = ScanReader(
            scan_geometry(lidar), (frame,) if frame else (), zero_is_far=self.parameters["zero_is_far"]
        )
        self._maps = self.publisher(topics.type_of(topics.MAP), topics.MAP, "latched")
        self.subscriber(odometry, topics.ODOM, self._on_odometry, "sensor_in", raw=True)
        self.subscriber(topics.message_type(topics.SCAN_TYPE), topics.SCAN, self._on_scan, "sensor_in", raw=True)

    def activate(self) -> None:
        """Start with an empty map."""
        self._grids.reset()
        self.every(1.0 / self.parameters["rate_hz"], self._publish)

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report how many scans are in the map."""
        missing = "no scan has come that odometry goes with" if not self._counts["scans"] else ""
        return missing, dict(self._counts)

    def _on_odometry(self, data: bytes) -> None:
        if not self.active:
            return
        stamp, seen = self._read_odometry(data)
        if not all(np.isfinite(v).all() for v in seen.values()):
            return
        if self._poses.add(stamp, seen["position"], float(frames.yaw(seen["orientation"]))):
            self._counts["jumps"] += 1
            self._grids.reset()
            self._waiting.clear()
        while self._waiting and self._waiting[0][0] <= stamp:
            self._add(*self._waiting.popleft())

    def _on_scan(self, data: bytes) -> None:
        if not self.active:
            return
        try:
            stamp, signals = self._read_scan(data)
        except ValueError as error:
            self._counts["scans refused"] += 1
            self.warn(f"A scan was refused: {error}.", "scan")
            return
        if stamp <= self._poses.newest_ns:
            self._add(stamp, signals["scan"])
        else:
            self._waiting.append((stamp, signals["scan"]))

    def _add(self, stamp_ns: int, scan: Array) -> None:
        pose = self._poses.at(stamp_ns)
        if pose is None:
            self._counts["scans without odometry"] += 1
            return
        x, y, yaw = pose
        here = Motion(np.array([[x, y]]), np.array([yaw]), np.zeros(1), np.zeros(1))
        self._grids.update(here, self._scanner.read(scan[None]))
        self._counts["scans"] += 1
        self._changed, self._stamp_ns = True, stamp_ns

    def _publish(self) -> None:
        if not self._changed:
            return
        self._changed = False
        x, y = self._grids.origin[0].tolist()
        occupancy = Occupancy(
            cells=self._grids.states()[0],
            resolution_m=self._grids.settings.resolution_m,
            origin_m=(x, y),
            stamp_ns=self._stamp_ns,
        )
        self._maps.publish(map_message(occupancy))
        self._counts["maps"] += 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the map node; return the exit status."""
    return run_nodes(MapNode, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
