from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message

from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.interfaces.tf_messages import TfMessage, Transform
from rlstack.nodes.posed_scans import PosedScans, Poses
from rlstack.robots import load_robot

MS = 1_000_000


def at(x: float, y: float = 0.0) -> np.ndarray:
    return np.array([x, y, 0.0])


def test_a_pose_between_two_is_between_them_the_short_way_round() -> None:
    poses = Poses()
    assert poses.at(0) is None
    assert not poses.add(0, at(0.0), math.pi - 0.1)
    assert not poses.add(100 * MS, at(0.4, 0.2), -math.pi + 0.1)
    x, y, yaw = poses.at(50 * MS)  # type: ignore[misc]
    assert (x, y) == pytest.approx((0.2, 0.1)) and abs(math.remainder(yaw - math.pi, 2 * math.pi)) < 1e-9
    assert poses.at(100 * MS)[0] == pytest.approx(0.4)  # type: ignore[index]
    assert poses.at(101 * MS) is None and poses.at(-1) is None


@pytest.mark.parametrize(("stamp", "x"), [(-600 * MS, 0.0), (600 * MS, 0.0), (50 * MS, 1.5)])
def test_time_or_place_that_jumps_forgets_what_was_before(stamp: int, x: float) -> None:
    poses = Poses()
    poses.add(0, at(0.0), 0.0)
    assert poses.add(stamp, at(x), 0.0)
    assert poses.at(stamp - 1) is None and poses.newest_ns == stamp


@settings(deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.floats(0.0, 1.0))
def test_along_a_straight_line_every_time_has_its_place(gaps: list[int], share: float) -> None:
    poses, stamp = Poses(), 0
    poses.add(0, at(0.0), 0.3)
    for gap in gaps:
        stamp += gap * MS
        assert not poses.add(stamp, at(0.001 * stamp / MS), 0.3)
    when = int(share * stamp)
    x, _, yaw = poses.at(when)  # type: ignore[misc]
    assert x == pytest.approx(0.001 * when / MS, abs=1e-9) and yaw == pytest.approx(0.3)


def test_a_pose_out_of_order_is_left_out() -> None:
    poses = Poses()
    poses.add(20 * MS, at(0.2), 0.0)
    assert not poses.add(10 * MS, at(0.1), 0.0)
    assert poses.newest_ns == 20 * MS


class Topics:
    """What a node's subscriptions are given to."""

    active = True

    def __init__(self, **parameters: Any) -> None:
        given = {"scan_frame": "", "zero_is_far": False, "frame_prefix": "", "odom_frame": ""}
        self.parameters = {**given, "transform_timeout_s": 0.0, **parameters}
        self.send: dict[str, Any] = {}
        self.warned: list[str] = []

    def subscriber(self, kind: Any, topic: str, callback: Any, use: str, raw: bool = False) -> None:
        self.send[topic] = callback

    def warn(self, sentence: str, key: str = "") -> None:
        self.warned.append(sentence)


def test_a_scan_in_a_frame_of_tf_is_used_where_the_lidar_stands_and_otherwise_refused() -> None:
    node, lidar = Topics(frame_prefix="tb/"), load_robot("turtlebot3_burger").lidars["scan"]
    used: list[tuple[int, np.ndarray]] = []
    scans = PosedScans(node, lidar, lambda stamp, ranges, pose: used.append((stamp, ranges)), lambda: None)
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), "tb/odom", "tb/base_link")
    none, level = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
    node.send[topics.ODOM](serialize_message(odometry.fill(5, none, level, none, none)))
    scan = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), "turned", lidar)
    ranges = np.full(lidar.rays, 2.0, dtype=np.float32)
    ranges[10] = 1.0
    data = serialize_message(scan.fill(5, ranges))
    node.send[topics.SCAN](data)
    assert not used and scans.counts["scans refused"] == 1
    assert "no frame tb/base_link on /tf" in scans.status()[0] and node.warned[0].startswith("A scan was refused: ")
    x, y, z = lidar.position_m
    transform = Transform("tb/base_link", "turned", (x, y, z, 0.0, 0.0, math.sin(math.pi / 4), math.cos(math.pi / 4)))
    node.send[topics.TF_STATIC](TfMessage([transform]).data)
    node.send[topics.SCAN](data)
    ((stamp, found),) = used
    assert stamp == 5 and np.argmin(found) == 10 + lidar.rays // 4 and scans.counts["scans refused"] == 1
