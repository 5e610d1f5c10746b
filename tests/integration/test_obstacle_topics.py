"""A quadrotor's guard hears scans and depth images over real topics, and knows what the robot flies towards."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.image_messages import ImageMessage
from rlstack.interfaces.messages import OdometryMessage
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.nodes.guard import GuardNode
from rlstack.robots import load_robot
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

SENSORS = """
cameras:
  front:
    {position_m: [0.03, 0.0, 0.0], width: 64, height: 48, rate_hz: 15.0, horizontal_fov_rad: 1.2, depth: true}
lidars:
  scan: {position_m: [0.0, 0.0, 0.03], rays: 360, rate_hz: 10.0, range_min_m: 0.1, range_max_m: 8.0}
"""


def test_a_wall_in_scan_and_depth_is_known_to_the_guard(listener: Listener, tmp_path: Path) -> None:
    file = tmp_path / "seeing.yaml"
    file.write_text((resources.files("rlstack") / "robots" / "crazyflie.yaml").read_text() + SENSORS)
    robot = load_robot(str(file))
    node = GuardNode(overrides={"robot": str(file)}, context=listener.context)
    listener.executor.add_node(node)
    node.start()
    out = topics.quality("sensor_out")
    image_type = topics.message_type(topics.CAMERA_TYPES[topics.DEPTH])
    scan_type = topics.message_type(topics.SCAN_TYPE)
    odom = listener.node.create_publisher(topics.type_of(topics.ODOM), topics.ODOM, out)
    scans = listener.node.create_publisher(scan_type, "scan", out)
    depths = listener.node.create_publisher(image_type, "front/depth", out)
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME)
    scan = ScanMessage(scan_type(), "scan_link", robot.lidars["scan"])
    depth = ImageMessage(image_type(), "front_optical_frame", "32FC1")
    try:
        listener.until(lambda: depths.get_subscription_count() and odom.get_subscription_count(), "the guard")

        def observe(speed: float) -> None:
            now, none = listener.node.get_clock().now().nanoseconds, np.zeros(3)
            level = np.array([0.0, 0.0, 0.0, 1.0])
            odom.publish(odometry.fill(now, np.array([0.0, 0.0, 1.0]), level, np.array([speed, 0.0, 0.0]), none))
            listener.spin(0.01)

        for _ in range(3):
            observe(1.5)
        now = listener.node.get_clock().now().nanoseconds
        scans.publish(scan.fill(now, np.full(360, 0.6, dtype=np.float32)))
        depths.publish(depth.fill(now, np.full((48, 64), 0.5, dtype=np.float32)))
        listener.until(lambda: node.status()[1]["front/depths"] == node.status()[1]["scans"] == 1, "both")
        depths.publish(depth.fill(now, np.full((3, 4), 0.5, dtype=np.float32)))
        listener.until(lambda: node.status()[1]["front/depths refused"] == 1, "a depth image of another size refused")
        assert node.status()[1]["scans refused"] == 0
        observe(1.5)
        assert "an obstacle is 0." in node.guard.obstacles.too_close(node.guard._newest)  # type: ignore[attr-defined]
        warning = node.status()[0]
        assert "nothing new from" not in warning and "a message on front/depth was refused: a depth image" in warning
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()
