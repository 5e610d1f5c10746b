"""A guard hears the scans of a lidar whose frame only TF knows: refused without the transform, right with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.interfaces.tf_messages import TfMessage, Transform
from rlstack.interfaces.tf_type import tf_type
from rlstack.nodes.guard import GuardNode
from rlstack.robots import load_robot
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


def test_a_scan_in_a_frame_of_tf_becomes_obstacles_where_they_are(listener: Listener) -> None:
    robot = load_robot("turtlebot3_burger")
    node = GuardNode(overrides={"robot": robot.name, "transform_timeout_s": 0.2}, context=listener.context)
    listener.executor.add_node(node)
    node.start()
    out = topics.quality("sensor_out")
    scan_type = topics.message_type(topics.SCAN_TYPE)
    odom = listener.node.create_publisher(topics.type_of(topics.ODOM), topics.ODOM, out)
    scans = listener.node.create_publisher(scan_type, "scan", out)
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME)
    scan = ScanMessage(scan_type(), "front_laser", robot.lidars["scan"])
    ranges = np.full(robot.lidars["scan"].rays, np.inf, dtype=np.float32)
    ranges[0] = 1.0
    try:
        listener.until(lambda: scans.get_subscription_count() and odom.get_subscription_count(), "the guard")

        def send() -> None:
            now = listener.node.get_clock().now().nanoseconds
            odom.publish(odometry.fill(now, np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3), np.zeros(3)))
            scans.publish(scan.fill(now, ranges))
            listener.spin(0.05)

        def until(reached: str) -> None:
            for _ in range(100):
                send()
                if node.status()[1][reached]:
                    return
            raise AssertionError(node.status())

        until("scans refused")
        warning, figures = node.status()
        assert figures["scans"] == 0 and "on scan was refused: the scan is in the frame 'front_laser'" in warning
        assert "there is no frame" in warning and "static_transform_publisher" in warning
        tf = listener.node.create_publisher(tf_type(), topics.TF_STATIC, topics.quality("latched"))
        turned = 0.0, 0.0, math.sin(math.pi / 4), math.cos(math.pi / 4)  # to the left
        tf.publish(TfMessage([Transform("base_link", "front_laser", (0.1, 0.05, 0.1, *turned))]).data)
        until("scans")
        send()
        hits = node.guard.protective_stop.hits(node.guard._newest)  # type: ignore[attr-defined]
        place = hits[np.argmin(np.hypot(*hits.T))] + (robot.axle_m, 0.0)  # type: ignore[attr-defined]
        assert place == pytest.approx((0.1, 1.05), abs=0.02)
        assert "refused" not in node.status()[0]
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()
