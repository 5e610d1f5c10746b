"""Cameras and lidars over real topics: from the renderer to whoever listens."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlstack import schema
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Capture
from rlstack.interfaces.cloud_messages import cloud_colours, cloud_points
from rlstack.interfaces.image_messages import calibration, depth_array, image_array, read_camera_info
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.scan_messages import scan_ranges
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.sensor_topics import SensorTopics
from rlstack.perception.clouds import DepthToCloud, voxels
from rlstack.perception.virtual_scan import VirtualScan, camera_lidar
from rlstack.robots import Lidar
from tests.support.ros import Listener, NodeProcess, nodes
from tests.support.seeing import seeing

pytestmark = pytest.mark.integration

ROBOT = replace(
    seeing(),
    lidars={
        **seeing().lidars,
        "rings": Lidar(rays=6, rate_hz=5.0, elevations_rad=(0.0, 0.1), range_min_m=0.1, range_max_m=9.0),
    },
)


def hear(listener: Listener, name: str, kind: str) -> list[Any]:
    kept: list[Any] = []
    listener.node.create_subscription(
        topics.message_type(kind), name, kept.append, topics.quality("sensor_in_reliable")
    )
    return kept


class Publishing(ManagedNode):
    NAME = "robot"


@pytest.fixture
def node(listener: Listener) -> Any:
    made = Publishing(context=listener.context)
    made.start()
    yield made
    made.stop()
    made.destroy_node()


def test_a_capture_goes_out_on_every_topic_that_is_heard(listener: Listener, node: Any) -> None:
    sensors = SensorTopics(node, ROBOT, ("camera", "scan", "rings"), "cf1/")
    assert sensors.rates_hz == {"camera": 20.0, "scan": 10.0, "rings": 5.0}
    images = hear(listener, "cf1/camera/image_raw", "sensor_msgs/msg/Image")
    infos = hear(listener, "cf1/camera/camera_info", "sensor_msgs/msg/CameraInfo")
    scans = hear(listener, "cf1/scan", topics.SCAN_TYPE)
    clouds = hear(listener, "cf1/rings", topics.CLOUD_TYPE)
    listener.until(lambda: all(map(sensors.wanted, sensors.names)), "discovery")
    rgb = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    depth = np.ones((48, 64), dtype=np.float32)
    sensors.publish("camera", 50_000_000, Capture(0.05, {"rgb": rgb, "depth": depth}))
    ranges = np.linspace(1.0, 2.0, 180, dtype=np.float32)
    sensors.publish("scan", 60_000_000, Capture(0.06, {"ranges": ranges}))
    sensors.publish("rings", 70_000_000, Capture(0.07, {"ranges": np.full((2, 6), 3.0, dtype=np.float32)}))
    listener.until(lambda: images and infos and scans and clouds, "messages")
    assert np.array_equal(image_array(images[0]), rgb)
    assert images[0].header == infos[0].header and images[0].header.frame_id == "cf1/camera_optical_frame"
    assert stamp_to_ns(images[0].header.stamp) == 50_000_000
    assert read_camera_info(infos[0]).matrix.tolist() == ROBOT.cameras["camera"].intrinsics.tolist()
    assert np.array_equal(scan_ranges(scans[0]), ranges) and scans[0].header.frame_id == "cf1/scan_link"
    assert np.allclose(np.linalg.norm(cloud_points(clouds[0]), axis=1), 3.0) and clouds[0].width == 12


def test_what_nobody_hears_is_not_wanted(listener: Listener, node: Any) -> None:
    sensors = SensorTopics(node, ROBOT, ("camera", "scan"))
    hear(listener, "camera/depth", "sensor_msgs/msg/Image")
    listener.until(lambda: sensors.wanted("camera"), "discovery")
    assert not sensors.wanted("scan")


def test_from_the_renderer_to_points(listener: Listener, tmp_path: Path) -> None:
    """The robot node renders, the perception node makes coloured points and a scan of it, all with one stamp."""
    path = tmp_path / "seeing.yaml"
    camera = replace(ROBOT.cameras["camera"], rpy_rad=(0.0, 0.5, 0.0))  # at the floor
    path.write_text(yaml.safe_dump(schema.to_data(replace(ROBOT, cameras={"camera": camera}))))
    voxel_m = 0.05 if importlib.util.find_spec("open3d") else 0.0
    robot = NodeProcess("robot", robot=path, noise_seed=-1)
    heights = {"scan_low_m": -1.0, "scan_high_m": 1.0}  # here the floor is in the way
    perception = NodeProcess(
        "perception", coloured=True, voxel_m=voxel_m, far_m=5.0, scan="virtual_scan", robot=path, **heights
    )
    depths = hear(listener, "camera/depth", "sensor_msgs/msg/Image")
    infos = hear(listener, "camera/camera_info", "sensor_msgs/msg/CameraInfo")
    clouds = hear(listener, "camera/points", topics.CLOUD_TYPE)
    scans = hear(listener, "virtual_scan", topics.SCAN_TYPE)
    with nodes(robot, perception):

        def stamps(messages: list[Any]) -> set[int]:
            return {stamp_to_ns(m.header.stamp) for m in messages}

        listener.until(
            lambda: len(depths) >= 5 and infos and stamps(depths) & stamps(clouds) & stamps(scans), "points and a scan"
        )
    periods = np.diff([stamp_to_ns(m.header.stamp) for m in depths])
    assert (periods > 0).all() and np.median(periods) >= 50_000_000 - 1, "at most the declared 20 Hz"
    by_stamp = {stamp_to_ns(m.header.stamp): m for m in depths}
    found = next(m for m in clouds if stamp_to_ns(m.header.stamp) in by_stamp and stamps([m]) & stamps(scans))
    scan = next(m for m in scans if m.header.stamp == found.header.stamp)
    depth = depth_array(by_stamp[stamp_to_ns(found.header.stamp)])
    whole = DepthToCloud(calibration(camera), near_m=0.1, far_m=5.0).cloud(depth).points
    points = cloud_points(found)
    assert found.header.frame_id == "camera_optical_frame" and len(cloud_colours(found)) == len(points) > 0
    # on the ground, and the camera just above it
    assert np.abs((camera.position + points @ camera.optical_rotation.T)[:, 2]).max() < 0.05
    assert len(points) == len(whole) if voxel_m == 0.0 else len(points) < len(whole)
    lidar = camera_lidar(camera, 0.1, 5.0)
    assert scan.header.frame_id == "base_link" and len(scan.ranges) == lidar.rays
    assert scan.angle_min == pytest.approx(lidar.angle_min_rad) and scan.range_max == 5.0
    converter = DepthToCloud(calibration(camera), near_m=0.1, far_m=5.0)
    ends, near = converter.lines_of_sight(depth, 5.0)
    made = VirtualScan(lidar, camera, -1.0, 1.0, voxel_m)
    kept = voxels(converter.cloud(depth), voxel_m).points if voxel_m else whole
    np.testing.assert_array_equal(scan.ranges, made.ranges(np.concatenate((kept, near)), ends))
    assert np.isfinite(scan.ranges).sum() > 10
