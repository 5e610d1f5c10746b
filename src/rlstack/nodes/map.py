"""The map node: builds an occupancy grid from scans and odometry, for viewers and planners."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.occupancy import GridSettings, OccupancyGrids
from rlstack.control.navigation.planner_interface import Motion, Scanner
from rlstack.interfaces import topics
from rlstack.interfaces.map_messages import Occupancy, map_message
from rlstack.interfaces.tf_messages import TfMessage, Transform
from rlstack.interfaces.tf_type import tf_type
from rlstack.nodes.frames import frames_of
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.posed_scans import PARAMETERS as SCAN_PARAMETERS
from rlstack.nodes.posed_scans import Pose, PosedScans
from rlstack.nodes.runtime import ManagedNode
from rlstack.robots import load_robot

PARAMETERS = (
    Parameter("robot", "turtlebot3_burger", "Robot with a lidar called scan, a name or file."),
    Parameter("resolution_m", 0.05, "Side of a cell, m.", minimum=0.005, maximum=10.0),
    Parameter("size_m", 20.0, "Side of the map, m; the map moves with the robot.", minimum=1.0, maximum=200.0),
    Parameter("rate_hz", 1.0, "Rate at which a changed map is published, Hz.", minimum=0.01, maximum=20.0),
    *SCAN_PARAMETERS,
    Parameter(
        "map_to_odom",
        True,
        "Publish map to odom as the same, unless another node publishes odom's parent; false: the map is in odom.",
    ),
)

_OTHERS_S = 2.0
"""How long it listens for another publisher of odom's parent before it publishes it."""


class MapNode(ManagedNode):
    """Publishes ``map``, the occupancy grid of a base's scans so far.

    Each scan is placed by odometry. There is no loop closure: the map is as accurate as the odometry. Its frame ``map``
    is therefore the same as ``odom``, and the node says so on ``/tf_static``; where another node gives ``odom`` a
    parent, such as localization, it does not, and the map is in ``odom``.
    """

    NAME: ClassVar[str] = "map"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Create the topics.

        Raises:
            UserError: The robot is not a base, or has no lidar called scan.
        """
        robot = load_robot(self.parameters["robot"])
        lidar = BaseModel.of(robot).lidar(topics.SCAN)
        resolution = self.parameters["resolution_m"]
        cells = min(max(round(self.parameters["size_m"] / resolution), 16), 4096)
        self._scanner = Scanner(lidar)
        self._grids = OccupancyGrids(
            self._scanner,
            GridSettings(resolution_m=resolution, cells=cells, sight_m=lidar.range_max_m, rays=lidar.rays),
        )
        self._changed, self._stamp_ns = False, 0
        self._scans = PosedScans(self, lidar, self._add, self._on_jump)
        self._counts = self._scans.counts
        self._counts.update(maps=0, jumps=0)
        self._maps = self.publisher(topics.type_of(topics.MAP), topics.MAP, "latched")
        self._frames = frames_of(self.parameters)
        self._transform: Any = None
        if self.parameters["map_to_odom"]:
            self._scans.transforms.start()

    def activate(self) -> None:
        """Start with an empty map."""
        self._grids.reset()
        self.every(1.0 / self.parameters["rate_hz"], self._publish)
        self._since = time.monotonic()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report how many scans are in the map, and whether another node publishes odom's parent, too."""
        warning, figures = self._scans.status()
        return self._scans.transforms.buffer.conflict(self._frames.odom) or warning, {**figures, "frame": self._frame}

    @property
    def _frame(self) -> str:
        """The frame of the map."""
        return self._frames.odom if self._transform is None else self._frames.map

    def _publish_transform(self) -> None:
        """Publish that map is odom, unless another node gives odom a parent."""
        others = self._scans.transforms.buffer
        if not self.parameters["map_to_odom"] or self._transform is not None or others.parent(self._frames.odom):
            return
        if time.monotonic() - self._since > _OTHERS_S:
            self._transform = self.publisher(tf_type(), topics.TF_STATIC, "latched")
            self._transform.publish(TfMessage([Transform(self._frames.map, self._frames.odom)]).data)
            self._changed = self._counts["maps"] > 0

    def _on_jump(self) -> None:
        self._counts["jumps"] += 1
        self._grids.reset()

    def _add(self, stamp_ns: int, scan: Array, pose: Pose) -> None:
        x, y, yaw = pose
        here = Motion(np.array([[x, y]]), np.array([yaw]), np.zeros(1), np.zeros(1))
        self._grids.update(here, self._scanner.read(scan[None]))
        self._counts["scans"] += 1
        self._changed, self._stamp_ns = True, stamp_ns

    def _publish(self) -> None:
        self._publish_transform()
        if not self._changed:
            return
        self._changed = False
        x, y = self._grids.origin[0].tolist()
        occupancy = Occupancy(
            cells=self._grids.states()[0],
            resolution_m=self._grids.settings.resolution_m,
            origin_m=(x, y),
            frame=self._frame,
            stamp_ns=self._stamp_ns,
        )
        self._maps.publish(map_message(occupancy))
        self._counts["maps"] += 1


main = MapNode.main

if __name__ == "__main__":
    raise SystemExit(main())
