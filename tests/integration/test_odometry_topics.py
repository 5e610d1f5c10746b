"""The odometry node on topics: an IMU and late poses in, odometry with its covariance out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import ImuMessage, pose_message, stamp_to_ns
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

STEP_NS = 10_000_000
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def test_odometry_comes_from_an_imu_and_late_poses(listener: Listener) -> None:
    from rlstack.nodes.odometry import OdometryNode

    node = OdometryNode(overrides={"imu_hz": 100.0}, namespace="/cf", context=listener.context)
    heard = listener.hear(topics.ODOM, robot="/cf", depth=100)
    imu = ImuMessage(topics.type_of(topics.IMU)(), "base_link")
    senders: dict[str, Any] = {
        topic: listener.node.create_publisher(topics.type_of(topic), f"/cf/{topic}", topics.quality("sensor_out"))
        for topic in (topics.IMU, topics.EXTERNAL_POSE)
    }
    listener.executor.add_node(node)
    node.start()
    listener.until(lambda: all(one.get_subscription_count() for one in senders.values()), "it listens")
    assert "waiting for imu and external_pose" in node.status()[0]

    def move(k: int) -> None:
        """Say one sample of the IMU, and the pose of two samples ago: 0.5 m/s^2 to the left."""
        before, counts = len(heard), node._filter.counts.measurements
        senders[topics.IMU].publish(imu.fill(k * STEP_NS, np.zeros(3), np.array([0.0, 0.5, 9.81])))
        if k > 3:
            listener.until(lambda: len(heard) > before, "odometry")
        late = k - 2
        place = np.array([1.0, 0.25 * (1e-2 * late) ** 2, 1.0])
        senders[topics.EXTERNAL_POSE].publish(pose_message(place, LEVEL, stamp_ns=late * STEP_NS, frame="odom"))
        listener.until(
            lambda: node._filter.state is not None and (k <= 2 or node._filter.counts.measurements > counts),
            "it hears the pose",
        )

    for k in range(2, 40):
        move(k)
    last = heard[-1]
    assert stamp_to_ns(last.header.stamp) == 39 * STEP_NS and last.child_frame_id == "base_link"
    assert last.twist.twist.linear.y == pytest.approx(0.5 * 0.39, abs=0.02)
    assert last.pose.pose.position.x == pytest.approx(1.0, abs=0.002)
    covariance = np.array(last.pose.covariance).reshape(6, 6)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    assert (np.linalg.eigvalsh(covariance) > 0.0).all() and covariance[0, 0] < 1e-5
    senders[topics.EXTERNAL_POSE].publish(
        pose_message(np.array([9.0, 0.0, 1.0]), LEVEL, stamp_ns=39 * STEP_NS, frame="odom")
    )
    listener.until(lambda: node._filter.counts.outliers == 1, "the outlier is left out")
    listener.executor.remove_node(node)
    node.stop()
    node.destroy_node()
