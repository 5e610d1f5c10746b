"""A scanner on a pseudo-terminal and a video file as a robot's lidar and camera."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.captures import Captures
from rlstack.hardware.captures.camera import fitted
from rlstack.hardware.captures.rplidar import NodeParser, Revolution, rays
from rlstack.hardware.drivers.serial_base import SerialBase
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots.sensing import Camera
from tests.support.peers.rplidar import RpLidarPeer
from tests.support.peers.serial_base import SerialBasePeer
from tests.support.waiting import soon

BURGER = WheeledBase.load("turtlebot3_burger")
COLOUR = Camera(width=32, height=24, rate_hz=30.0, horizontal_fov_rad=1.0)
SEEING = replace(BURGER, cameras={"front": COLOUR})


def far(angle: float) -> float:
    """A wall 1 m ahead, one 3 m to the right, something behind that reflects nothing."""
    if abs(math.remainder(angle - math.pi, 2.0 * math.pi)) < 0.2:
        return 0.0
    return 3.0 if 1.2 < angle < 1.9 else 1.0


@pytest.fixture
def peer() -> Iterator[RpLidarPeer]:
    pytest.importorskip("serial")
    with RpLidarPeer(far) as made:
        yield made


def test_a_turn_of_the_scanner_is_the_robot_files_rays(peer: RpLidarPeer) -> None:
    captures = Captures(BURGER, {"lidar": peer.port})
    assert captures.names == ("scan",)
    captures.open()
    try:
        assert peer.motor > 0
        scan = captures.capture("scan")
        ranges = scan.arrays["ranges"]
        assert ranges.shape == (360,) and ranges.dtype == np.float32
        assert ranges[0] == pytest.approx(1.0) and ranges[270] == pytest.approx(3.0)  # right is clockwise
        assert ranges[90] == pytest.approx(1.0) and np.isnan(ranges[180])
        assert abs(time.time() - scan.time_s) < 0.5
        assert soon(lambda: captures.capture("scan").time_s > scan.time_s)
        peer.gaps = 3  # bytes that the line lost: that turn is dropped, and no ray is wrong
        before = captures.capture("scan").time_s
        assert soon(lambda: captures.capture("scan").time_s > before + 0.3)
        np.testing.assert_array_equal(captures.capture("scan").arrays["ranges"], ranges)
    finally:
        captures.close()
    assert soon(lambda: not peer.scanning and peer.motor == 0)


def test_a_scanner_that_is_pulled_out_comes_back(peer: RpLidarPeer) -> None:
    options = {"lidar": f"scan:{peer.port}", "lidar_yaw": math.pi / 2.0, "zero_is_far": True}
    captures = Captures(BURGER, options)
    captures.open()
    assert np.isposinf(captures.capture("scan").arrays["ranges"][270])
    assert captures.capture("scan").arrays["ranges"][0] == pytest.approx(3.0)  # its front points to the left
    before = captures.capture("scan").time_s
    peer.scanning = False
    peer.replug()
    assert soon(lambda: captures.capture("scan").time_s > before + 0.3)
    captures.close()


def test_what_is_not_a_good_scanner_is_said(peer: RpLidarPeer) -> None:
    peer.health = 2
    with pytest.raises(UserError, match="reports the error 0x0000"):
        Captures(BURGER, {"lidar": peer.port}).open()
    with SerialBasePeer() as other, pytest.raises(UserError, match="No scanner of the RPLIDAR class answers"):
        Captures(BURGER, {"lidar": other.port}).open()
    with pytest.raises(UserError, match=r"The option camera=/dev/video0 names no camera of .* which has none"):
        Captures(replace(BURGER, cameras={}), {"camera": "/dev/video0"})
    with pytest.raises(UserError, match=r"camera of turtlebot3_burger 'back'"):
        Captures(SEEING, {"camera": "back:/dev/video0"})
    with pytest.raises(UserError, match="The camera camera of the robot file gives depth"):
        Captures(BURGER, {"camera": "camera:/dev/video0"})


def test_rays_without_a_node_are_not_measured_and_others_take_the_nearest() -> None:
    lidar = replace(BURGER.lidars["scan"], rays=8)
    turn = Revolution(np.array([0.0, 3.2, 6.2]), np.array([1.0, 0.05, 99.0]))
    found = rays(turn, replace(lidar, range_min_m=0.1))
    assert found[0] == 1.0 and found[4] == -np.inf  # nearer than it measures
    with_gap = rays(Revolution(np.linspace(0.0, 3.0, 100), np.full(100, 2.0)), lidar)
    assert np.isnan(with_gap[2]) and with_gap[6] == 2.0


def test_no_noise_is_a_turn() -> None:
    random = np.random.default_rng(3)
    parser = NodeParser()
    for _ in range(200):
        for turn in parser.feed(random.bytes(997)):
            assert np.all(np.diff(turn.angles_rad) >= 0.0)
    assert parser.bad > 0


@pytest.fixture
def video(tmp_path: Path) -> Path:
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "front.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 50.0, (32, 24))
    for k in range(4):
        image = np.zeros((24, 32, 3), np.uint8)
        image[..., k % 3] = 200  # blue, green, red, blue
        writer.write(image)
    writer.release()
    return path


def test_a_video_file_stands_for_the_camera_of_a_base(video: Path) -> None:
    with SerialBasePeer() as peer, RpLidarPeer() as scanner:
        base = SerialBase(SEEING, uri=f"{peer.uri}&camera={video}&lidar={scanner.port}")
        assert set(base.captured) == {"front", "scan"}
        base.connect()
        try:
            seen: set[int] = set()
            stamps = []

            def look() -> bool:
                capture = base.capture("front")
                image = capture.arrays["rgb"]
                assert image.shape == (24, 32, 3) and image.dtype == np.uint8
                stamps.append(capture.time_s)
                seen.add(int(image.mean(axis=(0, 1)).argmax()))
                return len(seen) == 3

            assert soon(look), "red, green and blue, again and again"
            assert stamps[-1] > stamps[0]
            with pytest.raises(UserError, match="camera or lidar 'back'"):
                base.capture("back")
        finally:
            base.close()


def test_a_larger_image_is_cut_about_its_middle_and_made_smaller(video: Path) -> None:
    small = replace(SEEING, cameras={"front": replace(COLOUR, width=12, height=12)})
    captures = Captures(small, {"camera": str(video)})
    captures.open()
    try:
        assert captures.capture("front").arrays["rgb"].shape == (12, 12, 3)
    finally:
        captures.close()
    columns = np.arange(32, dtype=np.uint8)
    image = np.broadcast_to(columns[None, :, None], (24, 32, 3)).astype(np.uint8)
    assert fitted(image, 32, 24) is image
    np.testing.assert_array_equal(fitted(image, 12, 12)[0, :, 0], 4 + 2 * np.arange(12) + 1)  # of 4 to 27, by twos
    assert fitted(image.transpose(1, 0, 2), 12, 12).shape == (12, 12, 3)


def test_a_camera_of_fewer_pixels_is_refused_with_both(video: Path) -> None:
    other = replace(SEEING, cameras={"front": replace(COLOUR, width=64)})
    with pytest.raises(UserError, match="gives 32 x 24 pixels, and the robot file says 64 x 24"):
        Captures(other, {"camera": str(video)}).open()
    with pytest.raises(UserError, match="cannot be opened"):
        Captures(SEEING, {"camera": "/dev/no_video"}).open()
