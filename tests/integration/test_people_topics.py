"""The people node over real topics."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage, stamp_to_ns
from rlstack.interfaces.people_messages import read_people
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.nodes.people import MARKERS, PeopleNode
from tests.support.bases import turtlebot
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = turtlebot()
PERIOD_NS = 100_000_000


def cast(x: float, y: float) -> np.ndarray:
    """Return the scan of a robot at the origin with one person of 0.25 m at (x, y); infinite elsewhere."""
    lidar = ROBOT.lidars["scan"]
    offset = np.array([x, y]) - lidar.position[:2]
    along = np.cos(lidar.angles_rad) * offset[0] + np.sin(lidar.angles_rad) * offset[1]
    aside = np.cos(lidar.angles_rad) * offset[1] - np.sin(lidar.angles_rad) * offset[0]
    hit = (along > 0.0) & (np.abs(aside) < 0.25)
    return np.where(hit, along - np.sqrt(np.maximum(0.0625 - aside**2, 0.0)), np.inf)


def test_who_walks_past_is_published_with_velocity_number_and_marker(listener: Listener) -> None:
    node = PeopleNode(overrides={"robot": ROBOT.name}, context=listener.context)
    listener.executor.add_node(node)
    heard, shown = listener.hear(topics.PEOPLE, "sensor_in"), []
    listener.node.create_subscription(
        topics.type_of(topics.MARKERS), MARKERS, shown.append, topics.quality("sensor_in")
    )
    quality = topics.quality("sensor_out")
    odom_out = listener.node.create_publisher(topics.type_of(topics.ODOM), topics.ODOM, quality)
    scan_out = listener.node.create_publisher(topics.message_type(topics.SCAN_TYPE), topics.SCAN, quality)
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME)
    scan = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), "scan_link", ROBOT.lidars["scan"])
    node.start()
    try:
        listener.until(
            lambda: odom_out.get_subscription_count() > 0 and scan_out.get_subscription_count() > 0, "the node's ears"
        )
        listener.until(lambda: node._markers.get_subscription_count() > 0, "the viewer")
        for step in range(1, 16):
            stamp, before = step * PERIOD_NS, len(heard)
            scan_out.publish(scan.fill(stamp, cast(1.5, -0.75 + 0.05 * step)))
            still = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3), np.zeros(3)
            odom_out.publish(odometry.fill(stamp, *still))
            listener.until(lambda n=before: len(heard) > n, f"people at step {step}")
        last = heard[-1]
        assert stamp_to_ns(last.header.stamp) == 15 * PERIOD_NS
        assert last.header.frame_id == topics.WORLD_FRAME
        people = read_people(last)
        assert people["people_position"][0, :2] == pytest.approx((1.5, 0.0), abs=0.08)
        assert people["people_velocity"][0, :2] == pytest.approx((0.0, 0.5), abs=0.2)
        listener.until(lambda: any(len(array.markers) == 2 for array in shown), "markers")
        assert node.status()[1]["people in the last"] == 1
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


def test_a_robot_that_sees_nothing_is_refused(listener: Listener) -> None:
    node = PeopleNode(overrides={"robot": "crazyflie"}, context=listener.context)
    with pytest.raises(UserError, match="wheeled base"):
        node.start()
    node.destroy_node()
