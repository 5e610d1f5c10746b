from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.robots import Camera, frames, lens
from rlstack.sim.sensing.captures import camera_pose, camera_view, lens_maps
from rlstack.sim.sensing.noise import noisy_depth
from tests.support.seeing import WALL_M, FloorAndWall, seeing

CAMERA = Camera(width=160, height=120, rate_hz=10.0, horizontal_fov_rad=1.2, depth=True, position_m=(0.1, 0.0, 0.05))
BENT = replace(CAMERA, distortion=(-0.28, 0.07, 0.002, -0.001, 0.0))
UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_point_in_space_is_where_k_says_whatever_the_pose(seed: int) -> None:
    """Pixel and depth lead back to the wall, through the mount and the body's attitude."""
    random = np.random.default_rng(seed)
    position = np.array([0.0, *random.uniform(-0.5, 0.5, 1), 1.0])
    orientation = frames.from_rotation_vector(random.uniform(-0.3, 0.3, 3))
    camera = replace(CAMERA, rpy_rad=tuple(random.uniform(-0.2, 0.2, 3)))
    depth = camera_view(FloorAndWall(), position, orientation, camera)["depth"].astype(float)
    place, axes = camera_pose(position, orientation, camera)
    v, u = random.integers(0, camera.height), random.integers(0, camera.width)
    if not np.isfinite(depth[v, u]):
        return
    point = place + axes @ (depth[v, u] * np.linalg.inv(camera.intrinsics) @ [u, v, 1.0])
    assert min(abs(point[0] - WALL_M), abs(point[2])) < 1e-5


def test_the_picture_is_the_right_way_round() -> None:
    """Up in the world is up in the picture, and the robot's left is left."""
    rgb = camera_view(FloorAndWall(), np.array([0.0, 0.0, 1.0]), UPRIGHT, CAMERA)["rgb"].astype(int)
    assert rgb[60, 10, 0] > rgb[60, 150, 0], "y grows to the left"
    assert rgb[10, 80, 1] > rgb[60, 80, 1], "z grows upwards"
    assert rgb[119, 80, 2] == 100 and rgb[60, 80, 2] == 200, "the floor is below the wall"


def test_a_lens_bends_the_picture_as_opencv_undoes_it() -> None:
    """The bent picture, straightened, is the plain camera's picture of the same K."""
    from rlstack.interfaces.image_messages import calibration
    from rlstack.perception.images import Undistorter

    at = np.array([0.0, 0.0, 1.0]), UPRIGHT
    plain, bent = (camera_view(FloorAndWall(), *at, c) for c in (CAMERA, BENT))
    straight = Undistorter(calibration(BENT))
    inside = np.s_[12:-12, 12:-12]
    rgb, wanted = straight.undistort(bent["rgb"])[inside].astype(int), plain["rgb"][inside].astype(int)
    assert np.percentile(np.abs(rgb - wanted), 99) <= 2.0, "all but the edge of the floor"
    assert np.abs(bent["rgb"][inside].astype(int) - wanted).max() > 20, "the lens does bend"
    depth = straight.undistort(bent["depth"])[inside]
    assert np.percentile(np.abs(depth / plain["depth"][inside] - 1.0), 99) < 0.02


def test_pixels_of_a_bent_picture_look_where_the_lens_says() -> None:
    columns, rows = lens_maps(BENT)
    (fx, _, cx), (_, fy, cy), _ = BENT.rendered.intrinsics
    straight = np.stack(((columns - cx) / fx, (rows - cy) / fy), axis=-1).astype(float)
    shown = lens.distort(straight, BENT.distortion)
    (fx, _, cx), (_, fy, cy), _ = BENT.intrinsics
    v, u = np.mgrid[:120, :160]
    assert np.abs(shown[..., 0] * fx + cx - u).max() < 1e-3 and np.abs(shown[..., 1] * fy + cy - v).max() < 1e-3
    assert columns.min() >= 0 and columns.max() <= BENT.rendered.width - 1
    assert rows.min() >= 0 and rows.max() <= BENT.rendered.height - 1


def test_what_is_out_of_reach_is_infinite_on_its_side() -> None:
    camera = replace(CAMERA, near_m=0.5, far_m=4.0)
    depth = noisy_depth(np.array([[0.2, 0.5, 4.0, 4.1, np.inf]], dtype=np.float32), camera)
    assert depth.tolist() == [[-np.inf, 0.5, 4.0, np.inf, np.inf]]


def test_depth_noise_grows_as_declared() -> None:
    camera = replace(CAMERA, depth_noise_m=0.002, depth_noise_per_m=0.003)
    for distance in (1.0, 4.0):
        ideal = np.full((200, 200), distance, dtype=np.float32)
        noisy = noisy_depth(ideal, camera, np.random.default_rng(1))
        assert noisy.std() == pytest.approx(0.002 + 0.003 * distance**2, rel=0.02)
        assert noisy.mean() == pytest.approx(distance, abs=1e-3)
        assert (noisy_depth(ideal, camera) == ideal).all()


def test_the_declared_share_of_depth_is_not_measured() -> None:
    camera = replace(CAMERA, depth_dropout=0.1)
    depth = noisy_depth(np.ones((300, 300), dtype=np.float32), camera, np.random.default_rng(2))
    assert np.isnan(depth).mean() == pytest.approx(0.1, abs=0.01)


def test_only_what_the_camera_has_is_there() -> None:
    at = np.array([0.0, 0.0, 1.0]), UPRIGHT
    assert set(camera_view(FloorAndWall(), *at, replace(CAMERA, rgb=False))) == {"depth"}
    assert set(camera_view(FloorAndWall(), *at, replace(CAMERA, depth=False))) == {"rgb"}


@pytest.mark.integration
@pytest.mark.parametrize(
    "camera",
    [CAMERA, BENT, replace(CAMERA, horizontal_fov_rad=None, fx_px=150.0, fy_px=170.0, cx_px=70.0, cy_px=66.0)],
    ids=["plain", "bent", "calibrated"],
)
def test_mujoco_renders_the_floor_where_it_is(camera: Camera) -> None:
    """Through the real renderer: each pixel that sees the floor has its depth, to a thousandth."""
    from rlstack.sim.backends.mujoco import BACKEND

    camera = replace(camera, rpy_rad=(0.1, 0.6, 0.3))
    robot = BACKEND(replace(seeing(), cameras={"camera": camera}, lidars={}))
    robot.connect()
    orientation = frames.from_rotation_vector([0.1, -0.05, 0.4])
    robot.reset({"position": np.array([0.3, -0.2, 1.5]), "orientation": orientation})
    capture = robot.capture("camera")
    robot.close()
    place, axes = camera_pose(np.array([0.3, -0.2, 1.5]), orientation, camera)
    v, u = np.mgrid[: camera.height, : camera.width]
    pixels = np.stack((u, v, np.ones_like(u)), axis=-1) @ np.linalg.inv(camera.intrinsics).T
    rays = np.concatenate((lens.undistort(pixels[..., :2], camera.distortion), pixels[..., 2:]), axis=-1) @ axes.T
    expected = np.where(rays[..., 2] < 0.0, -place[2] / rays[..., 2], np.inf)
    depth = capture.arrays["depth"]
    near = expected < 10.0
    assert near.mean() > 0.5
    wrong = np.abs(depth[near] / expected[near] - 1.0)
    assert np.percentile(wrong, 99) < 1e-3 and wrong.max() < (1e-3 if camera.is_plain else 0.05), "less far off"
    assert capture.arrays["rgb"].shape == (camera.height, camera.width, 3) and capture.arrays["rgb"].std() > 1.0
