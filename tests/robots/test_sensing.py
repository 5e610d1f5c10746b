from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.robots import Camera, Lidar, frames, lens, load_robot
from rlstack.robots.sensing import OPTICAL, RESERVED, rotation_from_rpy, sensor_frame
from rlstack.robots.spec import robot_files
from tests.support.robots import crazyflie

PLAIN = Camera(width=640, height=480, rate_hz=30.0, horizontal_fov_rad=1.2)
BENT = replace(PLAIN, distortion=(-0.28, 0.07, 0.001, -0.0005, 0.0))
SCAN = Lidar(rays=360, rate_hz=10.0, range_min_m=0.12, range_max_m=10.0)

angles = st.floats(-math.pi, math.pi)


@settings(deadline=None)
@given(st.tuples(angles, angles, angles))
def test_roll_pitch_yaw_turn_about_fixed_axes_in_this_order(rpy: tuple[float, float, float]) -> None:
    roll, pitch, yaw = (frames.from_rotation_vector(angle * axis) for angle, axis in zip(rpy, np.eye(3)))
    one_by_one = frames.multiply(yaw, frames.multiply(pitch, roll))
    assert np.allclose(rotation_from_rpy(rpy), frames.to_matrix(one_by_one), atol=1e-12)


def test_the_optical_frame_is_right_down_forward() -> None:
    right, down, forward = OPTICAL.T
    assert right.tolist() == [0.0, -1.0, 0.0] and down.tolist() == [0.0, 0.0, -1.0]
    assert forward.tolist() == [1.0, 0.0, 0.0]
    looking_down = replace(PLAIN, rpy_rad=(0.0, math.pi / 2, 0.0))
    assert np.allclose(looking_down.optical_rotation[:, 2], [0.0, 0.0, -1.0])
    looking_left = replace(PLAIN, rpy_rad=(0.0, 0.0, math.pi / 2))
    assert np.allclose(looking_left.optical_rotation[:, 2], [0.0, 1.0, 0.0])


def test_the_field_of_view_reaches_from_edge_to_edge() -> None:
    (fx, _, cx), (_, fy, cy), _ = PLAIN.intrinsics
    assert (cx, cy) == (319.5, 239.5) and fx == fy, "pixel 0 has its middle at 0"
    assert math.atan((639.5 - cx) / fx) - math.atan((-0.5 - cx) / fx) == pytest.approx(1.2)
    assert math.tan(0.5 * PLAIN.vertical_fov_rad) == pytest.approx(480 / 640 * math.tan(0.6))


def test_a_calibration_is_taken_as_it_is() -> None:
    camera = Camera(width=320, height=240, rate_hz=10.0, fx_px=200.0, fy_px=201.0, cx_px=158.0, cy_px=0.0)
    assert camera.intrinsics.tolist() == [[200.0, 0.0, 158.0], [0.0, 201.0, 0.0], [0.0, 0.0, 1.0]]
    assert not camera.is_plain


@pytest.mark.parametrize(
    "camera", [BENT, replace(PLAIN, horizontal_fov_rad=None, fx_px=400.0, fy_px=410.0, cx_px=250.0, cy_px=260.0)]
)
def test_what_an_engine_renders_sees_all_that_the_camera_sees(camera: Camera) -> None:
    rendered = camera.rendered
    assert rendered.is_plain and not rendered.distorted and not camera.is_plain
    (f, _, cx), (_, _, cy), _ = rendered.intrinsics
    seen = lens.undistort(camera.border(), camera.distortion) * f + [cx, cy]
    assert (seen > 0.0).all() and (seen < [rendered.width - 1, rendered.height - 1]).all()
    assert f == pytest.approx(max(camera.intrinsics[0, 0], camera.intrinsics[1, 1])), "as fine as the camera"
    assert rendered.near_m < camera.near_m, "what is too near hides what is behind it"


def test_a_plain_camera_is_rendered_as_it_is() -> None:
    assert PLAIN.is_plain
    assert PLAIN.rendered.intrinsics.tolist() == PLAIN.intrinsics.tolist()
    assert (PLAIN.rendered.width, PLAIN.rendered.height) == (640, 480)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"horizontal_fov_rad": None}, "give either horizontal_fov_rad, or all of fx_px"),
        ({"fx_px": 400.0}, "give either horizontal_fov_rad, or all of fx_px"),
        ({"horizontal_fov_rad": None, "fx_px": 1.0, "fy_px": 1.0, "cx_px": 1.0}, "with fx_px, fy_px, cx_px is not"),
        ({"far_m": 0.05}, r"must be above near_m \(0.05\)"),
        ({"rgb": False}, "would see nothing"),
        ({"distortion": (-0.9, 0.0, 0.0, 0.0, 0.0)}, "some pixels have no unique direction"),
    ],
)
def test_a_camera_that_cannot_be_is_refused(change: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(PLAIN, **change)


def test_a_turn_of_a_lidar_has_no_direction_twice() -> None:
    assert SCAN.angle_increment_rad == pytest.approx(math.radians(1.0))
    assert SCAN.angles_rad[0] == -math.pi and SCAN.angles_rad[-1] == pytest.approx(math.pi - math.radians(1.0))
    half = replace(SCAN, rays=181, angle_min_rad=-math.pi / 2, angle_max_rad=math.pi / 2)
    assert half.angles_rad[[0, 90, -1]] == pytest.approx([-math.pi / 2, 0.0, math.pi / 2])


def test_a_lidars_rays_point_where_its_angles_say() -> None:
    lidar = replace(SCAN, rays=4, elevations_rad=(0.0, 0.5))
    assert lidar.rings == 2 and lidar.directions.shape == (2, 4, 3)
    assert np.allclose(np.linalg.norm(lidar.directions, axis=-1), 1.0)
    assert np.allclose(lidar.directions[0], [[-1, 0, 0], [0, -1, 0], [1, 0, 0], [0, 1, 0]])
    assert np.allclose(lidar.directions[1, 2], [math.cos(0.5), 0.0, math.sin(0.5)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"angle_max_rad": -4.0}, "must be above angle_min_rad"),
        ({"angle_min_rad": -5.0}, "by one turn at most"),
        ({"range_max_m": 0.1}, r"must be above range_min_m \(0.12\)"),
        ({"elevations_rad": ()}, "at least one ring"),
    ],
)
def test_a_lidar_that_cannot_be_is_refused(change: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(SCAN, **change)


def file_with(tmp_path: Path, **sections: object) -> Path:
    data = yaml.safe_load(robot_files()["crazyflie"].read_text())
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**data, **sections}))
    return path


def test_cameras_and_lidars_come_from_the_robot_file(tmp_path: Path) -> None:
    cameras = {"front": schema.to_data(replace(BENT, depth=True))}
    lidars = {"scan": {"rays": 90, "rate_hz": 5, "range_min_m": 0.1, "range_max_m": 4, "elevations_rad": [0.0, 0.1]}}
    robot = load_robot(file_with(tmp_path, cameras=cameras, lidars=lidars))
    assert robot.cameras == {"front": replace(BENT, depth=True)}
    assert robot.lidars["scan"].rings == 2
    assert load_robot("crazyflie").cameras == {}


@pytest.mark.parametrize(
    ("cameras", "said"),
    [
        ({"Front": {}}, "cameras.Front.width' is missing"),
        ({"front": {"width": 0}}, "front.width: 0 is not allowed: must be at least 1 pixels"),
        ({"front": {"fov": 1}}, "Unknown key 'cameras.front.fov'"),
        ({"front": {**schema.to_data(PLAIN), "distortion": [1, 2]}}, "must be a list of 5"),
    ],
)
def test_a_mistake_in_a_camera_is_named(tmp_path: Path, cameras: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_robot(file_with(tmp_path, cameras=cameras))


@pytest.mark.parametrize("name", ["Front", "front/left", "2d", "front_", "a__b", "", "kamera-1"])
def test_names_that_cannot_be_topics_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"cameras: .* is not allowed: it becomes a topic"):
        load_robot(file_with(tmp_path, cameras={name: schema.to_data(PLAIN)}))


@pytest.mark.parametrize("name", ["odom", "imu", "goal", "cmd", "joint_states"])
def test_names_of_other_topics_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"lidars: '{name}' is not allowed: another topic or sensor has that name"):
        load_robot(file_with(tmp_path, lidars={name: schema.to_data(SCAN)}))


def test_a_camera_and_a_lidar_have_different_names() -> None:
    with pytest.raises(ValueError, match="lidars: 'front' is not allowed"):
        replace(crazyflie(), cameras={"front": PLAIN}, lidars={"front": SCAN})


def test_every_common_topic_is_reserved() -> None:
    assert {topic.lstrip("/").split("/")[0] for topic in topics.TYPES} <= RESERVED


def test_frames_bear_the_sensors_name() -> None:
    assert (sensor_frame("front"), sensor_frame("front", "optical")) == ("front_link", "front_optical_frame")
