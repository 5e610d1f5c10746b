"""Topics of one robot's cameras and lidars: publishes captures as images, scans and clouds to subscribers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Capture
from rlstack.interfaces.cloud_messages import CloudMessage, lidar_points
from rlstack.interfaces.image_messages import CameraInfoMessage, ImageMessage, calibration
from rlstack.interfaces.messages import seconds_to_ns
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.robots import RobotSpec
from rlstack.robots.sensing import sensor_frame

Filler = Callable[[int, Capture], Any]
"""Creates a message from a stamp, ns, and a capture."""


class SensorTopics:
    """Publishers of a backend's captures, independent of sampling.

    Args:
        node: Creates publishers (:class:`rlstack.nodes.runtime.ManagedNode`).
        robot: The robot with the cameras and lidars.
        captured: The names of those that the backend supports.
        prefix: Prefix of topics, such as ``cf1/``; may be empty.
        frame_prefix: Prefix of frames; None: that of topics.
    """

    def __init__(
        self, node: Any, robot: RobotSpec, captured: Sequence[str], prefix: str = "", frame_prefix: str | None = None
    ) -> None:
        frames = prefix if frame_prefix is None else frame_prefix
        self.names = tuple(captured)
        sensors = {name: robot.cameras.get(name) or robot.lidars[name] for name in self.names}
        self.rates_hz = {name: sensor.rate_hz for name, sensor in sensors.items()}
        """Sampling rate of each sensor."""
        self.latency_ns = {name: seconds_to_ns(sensor.latency_s) for name, sensor in sensors.items()}
        """Latency of each sensor by the robot file, which the caller applies."""
        self._fillers: dict[str, dict[str, Filler]] = {}
        self._publishers: dict[str, dict[str, Any]] = {}
        for name in self.names:
            made = _of_camera(robot, name, frames) if name in robot.cameras else _of_lidar(robot, name, frames)
            self._fillers[name] = {topic: fill for topic, (_, fill) in made.items()}
            self._publishers[name] = {
                topic: node.publisher(type(message), prefix + topic, "sensor_out")
                for topic, (message, _) in made.items()
            }

    def wanted(self, name: str) -> bool:
        """Return whether a topic of this camera or lidar has subscribers; if not, do not capture."""
        return any(publisher.get_subscription_count() > 0 for publisher in self._publishers[name].values())

    def publish(self, name: str, stamp_ns: int, capture: Capture) -> None:
        """Publish a capture on the topics that have subscribers.

        Args:
            name: Name of the camera or lidar.
            stamp_ns: Capture time, the stamp of all its messages.
            capture: The backend's capture.
        """
        fillers = self._fillers[name]
        for topic, publisher in self._publishers[name].items():
            if publisher.get_subscription_count() > 0:
                publisher.publish(fillers[topic](stamp_ns, capture))


def _of_camera(robot: RobotSpec, name: str, prefix: str) -> dict[str, tuple[Any, Filler]]:
    """Return the messages of a camera's topics and their fill functions; the calibration goes last, after its image."""
    camera, frame = robot.cameras[name], prefix + sensor_frame(name, "optical")
    made: dict[str, tuple[Any, Filler]] = {}
    for kind, array, encoding, has in (
        (topics.IMAGE, "rgb", "rgb8", camera.rgb),
        (topics.DEPTH, "depth", "32FC1", camera.depth),
    ):
        if has:
            image = ImageMessage(topics.message_type(topics.CAMERA_TYPES[kind])(), frame, encoding)
            made[topics.camera_topic(name, kind)] = image.message, _image_filler(image, array)
    info = CameraInfoMessage(topics.message_type(topics.CAMERA_TYPES[topics.CAMERA_INFO])(), frame, calibration(camera))
    made[topics.camera_topic(name, topics.CAMERA_INFO)] = info.message, lambda stamp, capture: info.fill(stamp)
    return made


def _image_filler(image: ImageMessage, array: str) -> Filler:
    return lambda stamp, capture: image.fill(stamp, capture.arrays[array])


def _of_lidar(robot: RobotSpec, name: str, prefix: str) -> dict[str, tuple[Any, Filler]]:
    lidar, frame = robot.lidars[name], prefix + sensor_frame(name)
    if lidar.rings == 1:
        scan = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), frame, lidar)
        return {name: (scan.message, lambda stamp, capture: scan.fill(stamp, capture.arrays["ranges"]))}
    cloud = CloudMessage(frame)
    return {
        name: (
            cloud.message,
            lambda stamp, capture: cloud.fill(stamp, lidar_points(lidar, capture.arrays["ranges"])),
        )
    }
