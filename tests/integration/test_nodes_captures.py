"""Cameras and lidars of the robot node: at their rates, stamped as the odometry, and no reason to fall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS, Capture
from rlstack.interfaces.image_messages import depth_array, rgb_array
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.scan_messages import scan_ranges
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.robot import RobotNode
from rlstack.robots.spec import robot_files
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

IMAGE, DEPTH = "sensor_msgs/msg/Image", "sensor_msgs/msg/Image"
HEIGHT = 1.0


@pytest.fixture
def seeing(tmp_path: Path) -> Path:
    """A Crazyflie with a camera that looks straight down and a lidar."""
    data = yaml.safe_load(robot_files()["crazyflie"].read_text())
    data["cameras"] = {
        "down": {
            "width": 24,
            "height": 16,
            "rate_hz": 20.0,
            "horizontal_fov_rad": 1.0,
            "depth": True,
            "position_m": [0.0, 0.0, -0.03],
            "rpy_rad": [0.0, 1.5707963, 0.0],
            "near_m": 0.01,
        }
    }
    data["lidars"] = {
        "scan": {"rays": 8, "rate_hz": 10.0, "range_min_m": 0.1, "range_max_m": 20.0, "position_m": [0, 0, 0.05]}
    }
    path = tmp_path / "seeing.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


class Running:
    def __init__(self, listener: Listener, robot: Path, backend: Any = None, **overrides: Any) -> None:
        self.listener = listener
        given = {"robot": str(robot), "noise_seed": -1, **overrides}
        self.node = RobotNode(backend, None, given, context=listener.context)
        listener.executor.add_node(self.node)

    def hear(self, topic: str, kind: str) -> list[Any]:
        kept: list[Any] = []
        quality = topics.quality("sensor_in_reliable")
        quality.depth = 50
        self.listener.node.create_subscription(topics.message_type(kind), topic, kept.append, quality)
        return kept

    def close(self) -> None:
        self.node.stop()
        self.listener.executor.remove_node(self.node)
        self.node.destroy_node()


def test_images_depth_and_scans_come_at_their_rates_with_the_stamps_of_odometry(
    listener: Listener, seeing: Path
) -> None:
    running = Running(listener, seeing, start_positions_m=(0.0, 0.0, HEIGHT), world="room:1")
    odometry = listener.hear(topics.ODOM, depth=500)
    images, depths = running.hear("down/image_raw", IMAGE), running.hear("down/depth", DEPTH)
    scans = running.hear("scan", topics.SCAN_TYPE)
    running.node.start()
    listener.until(lambda: len(images) > 12 and len(scans) > 6, "images and scans")
    stamps = {stamp_to_ns(message.header.stamp) for message in odometry}
    seen = [stamp_to_ns(message.header.stamp) for message in images]
    assert set(seen) <= stamps
    assert np.median(np.diff(seen)) == 5e7  # 20 Hz
    assert np.median(np.diff([stamp_to_ns(message.header.stamp) for message in scans])) == 1e8
    assert images[0].header.frame_id == "down_optical_frame" and rgb_array(images[0]).shape == (16, 24, 3)
    first = depth_array(depths[0])
    assert stamp_to_ns(depths[0].header.stamp) in seen
    fallen = 0.5 * 9.81 * (1e-9 * stamp_to_ns(depths[0].header.stamp)) ** 2
    assert np.median(first) == pytest.approx(max(HEIGHT - 0.015 - fallen, 0.0), abs=0.08)
    ranges = scan_ranges(scans[0])
    assert ranges.shape == (8,) and (np.isfinite(ranges) & (ranges < 20.0)).any()  # a room has walls
    running.close()


def test_what_nobody_listens_to_is_not_captured_and_what_cannot_see_is_said_once(
    listener: Listener, seeing: Path
) -> None:
    backend = BACKENDS.load("mujoco")(load_quadrotor(seeing))
    asked: list[str] = []

    def capture(name: str) -> Capture:
        asked.append(name)
        if name == "down":
            raise UserError("There is no way to render here: set MUJOCO_GL=egl.")
        return Capture(backend.simulation.time_s, {"ranges": np.full(8, 1.0, np.float32)})

    backend.capture = capture
    running = Running(listener, seeing, backend)
    odometry = listener.hear(topics.ODOM, depth=500)
    running.node.start()
    listener.until(lambda: len(odometry) > 30, "odometry")
    assert not asked
    scans, images = running.hear("scan", topics.SCAN_TYPE), running.hear("down/image_raw", IMAGE)
    listener.until(lambda: len(scans) > 5, "scans, although the camera is blind")
    assert asked.count("down") == 1 and not images
    assert "down is left out: There is no way to render here" in running.node.status()[0]
    running.close()
