"""The perception node: turns one camera's depth images into a filtered point cloud and a virtual lidar scan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import topics
from rlstack.interfaces.cloud_messages import CloudMessage
from rlstack.interfaces.image_messages import Calibration, depth_array, read_camera_info, rgb_array
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.libraries import import_library
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode
from rlstack.perception.clouds import Cloud, DepthToCloud, voxels, without_radius_outliers
from rlstack.perception.virtual_scan import VirtualScan, camera_lidar
from rlstack.robots import load_robot
from rlstack.robots.sensing import sensor_frame

PARAMETERS = (
    Parameter("camera", "camera", "Name of the camera, with which its topics begin."),
    Parameter("near_m", 0.1, "Least depth used, m.", minimum=0.0, maximum=1000.0),
    Parameter("far_m", 10.0, "Greatest depth used, m.", minimum=0.0, maximum=1000.0),
    Parameter("stride", 1, "Use every n-th pixel in each direction.", minimum=1, maximum=64),
    Parameter("voxel_m", 0.05, "Voxel size, m: one point is kept per voxel; 0: all points.", minimum=0.0, maximum=10.0),
    Parameter("neighbours", 0, "Points with fewer neighbours are removed; 0: none.", minimum=0, maximum=1000),
    Parameter("radius_m", 0.2, "Radius in which neighbours are counted, m.", minimum=0.001, maximum=10.0),
    Parameter("coloured", False, "Colour the points by the camera's image."),
    Parameter("scan", "", "Topic of a virtual scan, such as virtual_scan, or scan in place of a lidar; empty: none."),
    Parameter("robot", "", "Robot that carries the camera, a name or file; required for a scan."),
    Parameter("scan_low_m", 0.05, "The scan ignores points below this height above base_link, m.", -10.0, 10.0),
    Parameter("scan_high_m", 0.5, "The scan ignores points above this height above base_link, m.", -10.0, 10.0),
)


class PerceptionNode(ManagedNode):
    """Publishes ``CAMERA/points`` from ``CAMERA/depth`` and ``CAMERA/camera_info``, in the camera's optical frame.

    Points have the depth image's stamp. It works only while there are subscribers. Voxels and neighbours need Open3D.
    With the parameter ``scan`` it also publishes a ``sensor_msgs/LaserScan`` of the points: with the rays and pose of
    the robot's lidar of that name or, without one, at ``base_link`` and as wide as the camera's field of view.
    """

    NAME: ClassVar[str] = "perception"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Create the topics.

        Raises:
            UserError: Open3D is required but not installed; or a scan is required but the robot is unknown or has no
                such camera, or its lidar or the heights do not fit.
        """
        self._scan = self._made_scan() if self.parameters["scan"] else None
        if self.parameters["voxel_m"] > 0.0 or self.parameters["neighbours"] > 0:
            import_library("open3d", "perception")
        self._known: Calibration | None = None
        self._converter: DepthToCloud | None = None
        self._message: CloudMessage | None = None
        self._newest: dict[str, Any] = {}
        self._clouds, self._points, self._refused = 0, 0, ""
        camera, images = self.parameters["camera"], (topics.DEPTH, topics.IMAGE)[: 1 + self.parameters["coloured"]]
        callbacks: dict[str, Callable[[Any], None]] = {topics.CAMERA_INFO: self._on_info}
        callbacks.update((kind, partial(self._on_image, topic=kind)) for kind in images)
        for kind, callback in callbacks.items():
            message = topics.message_type(topics.CAMERA_TYPES[kind])
            self.subscriber(message, topics.camera_topic(camera, kind), callback, "sensor_in")
        cloud = topics.message_type(topics.CAMERA_TYPES[topics.POINTS])
        self._publisher = self.publisher(cloud, topics.camera_topic(camera, topics.POINTS), "sensor_out")
        self._scan_message: ScanMessage | None = None
        self._scans: Any = None
        if self._scan is not None:
            self._scans = self.publisher(topics.message_type(topics.SCAN_TYPE), self.parameters["scan"], "sensor_out")

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report how much was received and sent."""
        camera = self.parameters["camera"]
        missing = "" if self._known is not None else f"no valid message on {camera}/{topics.CAMERA_INFO} yet"
        figures = {"clouds": self._clouds, "points in the last": self._points, "refused": self._refused or "none"}
        return self._refused or missing, figures

    def _on_info(self, message: Any) -> None:
        try:
            known = read_camera_info(message)
        except ValueError as error:
            self._refuse(str(error))
            return
        if self._known is None or not _same(known, self._known):
            p = self.parameters
            self._known = known
            self._converter = DepthToCloud(known, near_m=p["near_m"], far_m=p["far_m"], stride=p["stride"])

    def _on_image(self, message: Any, topic: str) -> None:
        self._newest[topic] = message
        self._publish_points()

    def _publish_points(self) -> None:
        """Publish a cloud once the depth image, and the colour image if points are coloured, have arrived."""
        depth, image = self._newest.get(topics.DEPTH), self._newest.get(topics.IMAGE)
        if self._converter is None or depth is None or not self.active:
            return
        heard = self._publisher.get_subscription_count() > 0
        scanned = self._scans is not None and self._scans.get_subscription_count() > 0
        if not heard and not scanned:
            return
        coloured = self.parameters["coloured"]
        if coloured and (image is None or image.header.stamp != depth.header.stamp):
            return
        self._newest.clear()
        try:
            distance = depth_array(depth)
            cloud = self._converter.cloud(distance, rgb_array(image) if coloured else None)
            ends, near = self._converter.lines_of_sight(distance, self.parameters["far_m"])
        except ValueError as error:
            self._refuse(str(error))
            return
        cloud = self._filtered(cloud)
        if heard:
            self._publish_cloud(depth.header, cloud)
        if self._scan is not None and scanned:
            self._publish_scan(depth.header, *self._scan, np.concatenate((cloud.points, near)), ends)
        self._clouds, self._points, self._refused = self._clouds + 1, len(cloud), ""

    def _publish_cloud(self, header: Any, cloud: Cloud) -> None:
        if self._message is None or self._message.message.header.frame_id != header.frame_id:
            self._message = CloudMessage(header.frame_id, self.parameters["coloured"])
        self._publisher.publish(self._message.fill(stamp_to_ns(header.stamp), cloud.points, cloud.colours))

    def _publish_scan(self, header: Any, scan: VirtualScan, frame: str, points: Any, ends: Any) -> None:
        if self._scan_message is None:
            prefix = header.frame_id.removesuffix(sensor_frame(self.parameters["camera"], "optical"))
            self._scan_message = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), prefix + frame, scan.lidar)
        ranges = scan.ranges(points, ends)
        self._scans.publish(self._scan_message.fill(stamp_to_ns(header.stamp), ranges))

    def _made_scan(self) -> tuple[VirtualScan, str]:
        p = self.parameters
        if not p["robot"]:
            raise UserError("A virtual scan needs to know where the camera sits: set robot:=NAME or its file.")
        robot, name = load_robot(p["robot"]), p["camera"]
        if name not in robot.cameras:
            raise unknown_name("camera", name, robot.cameras)
        camera = robot.cameras[name]
        own = robot.lidars.get(p["scan"])
        try:
            lidar = own or camera_lidar(camera, p["near_m"], p["far_m"])
            scan = VirtualScan(lidar, camera, p["scan_low_m"], p["scan_high_m"], p["voxel_m"])
        except ValueError as error:
            raise UserError(f"{robot.name} cannot have the scan '{p['scan']}' of '{name}': {error}.") from error
        return scan, topics.BODY_FRAME if own is None else sensor_frame(p["scan"])

    def _filtered(self, cloud: Cloud) -> Cloud:
        p = self.parameters
        if p["voxel_m"] > 0.0:
            cloud = voxels(cloud, p["voxel_m"])
        if p["neighbours"] > 0:
            cloud = without_radius_outliers(cloud, p["neighbours"], p["radius_m"])
        return cloud

    def _refuse(self, reason: str) -> None:
        self._refused = reason
        self.warn(f"{self.parameters['camera']}: {reason}.", "refused")


def _same(one: Calibration, other: Calibration) -> bool:
    sizes = (one.width, one.height) == (other.width, other.height)
    return sizes and bool((one.matrix == other.matrix).all() and (one.distortion == other.distortion).all())


main = PerceptionNode.main

if __name__ == "__main__":
    raise SystemExit(main())
