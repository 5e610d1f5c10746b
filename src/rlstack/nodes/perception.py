"""The perception node: one camera's depth becomes a filtered point cloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.clouds import CloudMessage
from rlstack.interfaces.images import Calibration, depth_array, read_camera_info, rgb_array
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode, run_nodes
from rlstack.perception.clouds import Cloud, DepthToCloud, voxels, without_radius_outliers
from rlstack.perception.libraries import import_open3d

PARAMETERS = (
    Parameter("camera", "camera", "Name of the camera: its topics begin with it."),
    Parameter("near_m", 0.1, "Least depth that is taken, m.", minimum=0.0, maximum=1000.0),
    Parameter("far_m", 10.0, "Greatest depth that is taken, m.", minimum=0.0, maximum=1000.0),
    Parameter("stride", 1, "Every so manieth pixel in each direction is taken.", minimum=1, maximum=64),
    Parameter("voxel_m", 0.05, "One point for each cube of this size, m; 0: all.", minimum=0.0, maximum=10.0),
    Parameter("neighbours", 0, "Points with fewer others around them are left out; 0: none.", minimum=0, maximum=1000),
    Parameter("radius_m", 0.2, "How far around a point others are counted, m.", minimum=0.001, maximum=10.0),
    Parameter("coloured", False, "Give points the colours of the camera's image."),
)


class PerceptionNode(ManagedNode):
    """Makes ``CAMERA/points`` of ``CAMERA/depth`` and ``CAMERA/camera_info``, in the camera's optical frame.

    Points bear the stamp of the depth. Works only while somebody listens. Voxels and neighbours need Open3D.

    Args:
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__("perception", PARAMETERS, overrides, **options)

    def configure(self) -> None:
        """Make the topics.

        Raises:
            UserError: Open3D is asked for and not installed.
        """
        if self.parameters["voxel_m"] > 0.0 or self.parameters["neighbours"] > 0:
            import_open3d()
        self._known: Calibration | None = None
        self._converter: DepthToCloud | None = None
        self._message: CloudMessage | None = None
        self._depth: Any = None
        self._image: Any = None
        self._clouds, self._points, self._refused = 0, 0, ""
        camera, kinds = self.parameters["camera"], {topics.CAMERA_INFO: self._on_info, topics.DEPTH: self._on_depth}
        if self.parameters["coloured"]:
            kinds[topics.IMAGE] = self._on_image
        for kind, callback in kinds.items():
            message = topics.message_type(topics.CAMERA_TYPES[kind])
            self.subscriber(message, topics.camera_topic(camera, kind), callback, "sensor_in")
        cloud = topics.message_type(topics.CAMERA_TYPES[topics.POINTS])
        self._publisher = self.publisher(cloud, topics.camera_topic(camera, topics.POINTS), "sensor_out")

    def status(self) -> tuple[str, dict[str, Any]]:
        """Say what has come and gone."""
        camera = self.parameters["camera"]
        missing = "" if self._known is not None else f"nothing usable on {camera}/{topics.CAMERA_INFO} yet"
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

    def _on_depth(self, message: Any) -> None:
        self._depth = message
        self._work()

    def _on_image(self, message: Any) -> None:
        self._image = message
        self._work()

    def _work(self) -> None:
        """Make a cloud once the depth, and the image of the same time if points are coloured, have come."""
        depth, image = self._depth, self._image
        if self._converter is None or depth is None or not self.active or not self._publisher.get_subscription_count():
            return
        coloured = self.parameters["coloured"]
        if coloured and (image is None or image.header.stamp != depth.header.stamp):
            return
        self._depth = self._image = None
        try:
            cloud = self._converter.cloud(depth_array(depth), rgb_array(image) if coloured else None)
        except ValueError as error:
            self._refuse(str(error))
            return
        cloud = self._filtered(cloud)
        if self._message is None or self._message.message.header.frame_id != depth.header.frame_id:
            kind = topics.message_type(topics.CAMERA_TYPES[topics.POINTS])
            self._message = CloudMessage(kind(), depth.header.frame_id, coloured)
        self._publisher.publish(self._message.fill(stamp_to_ns(depth.header.stamp), cloud.points, cloud.colours))
        self._clouds, self._points, self._refused = self._clouds + 1, len(cloud), ""

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the perception node; return the exit status."""
    return run_nodes(PerceptionNode, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
