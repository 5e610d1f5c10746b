from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces.image_messages import Calibration, calibration
from rlstack.perception import clouds
from rlstack.perception.clouds import Cloud, DepthToCloud
from rlstack.robots import Camera, frames
from rlstack.sim.sensing.captures import camera_pose, camera_view
from tests.support.seeing import WALL_M, FloorAndWall

needs_open3d = pytest.mark.skipif(
    importlib.util.find_spec("open3d") is None,
    reason="Open3D (1.1 GB) is not installed: pip install 'rlstack[perception]'",
)

CAMERA = Camera(width=80, height=60, rate_hz=5.0, horizontal_fov_rad=1.2, depth=True)
BENT = replace(CAMERA, distortion=(-0.28, 0.07, 0.002, -0.001, 0.0))


def known(camera: Camera = CAMERA) -> Calibration:
    return calibration(camera)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_points_lead_back_to_their_pixels(seed: int) -> None:
    random = np.random.default_rng(seed)
    depth = random.uniform(0.5, 9.0, (60, 80))
    points = DepthToCloud(known()).cloud(depth).points
    assert np.array_equal(points[:, 2], depth.ravel())
    projected = points @ known().matrix.T
    v, u = np.mgrid[:60, :80]
    assert np.allclose(projected[:, :2] / projected[:, 2:], np.stack((u, v), axis=-1).reshape(-1, 2), atol=1e-9)


def test_the_bent_pixels_of_a_wall_and_a_floor_are_flat_again() -> None:
    """From rendering through the lens to points in the world."""
    position, orientation = np.array([0.5, 0.2, 1.0]), frames.from_yaw(0.2)
    view = camera_view(FloorAndWall(), position, orientation, BENT)
    cloud = DepthToCloud(known(BENT), far_m=8.0).cloud(view["depth"], view["rgb"])
    place, axes = camera_pose(position, orientation, BENT)
    world = place + cloud.points @ axes.T
    off = np.minimum(np.abs(world[:, 0] - WALL_M), np.abs(world[:, 2]))
    assert len(cloud) > 2000 and np.percentile(off, 98) < 0.005
    assert cloud.colours is not None
    wall = np.abs(world[:, 0] - WALL_M) < 0.01
    assert np.percentile(np.abs(cloud.colours[wall, 1] - (125.0 + 50.0 * world[wall, 2])), 95) < 4.0


def test_what_was_not_measured_or_is_out_of_range_makes_no_point() -> None:
    depth = np.full((60, 80), 2.0)
    depth[0] = [np.nan, np.inf, -np.inf, 0.0, -1.0] * 16
    depth[1, :2] = 0.2, 7.0
    cloud = DepthToCloud(known(), near_m=0.3, far_m=5.0).cloud(depth)
    assert len(cloud) == 59 * 80 - 2 and (cloud.points[:, 2] == 2.0).all()


def test_a_stride_takes_every_so_manieth_pixel() -> None:
    depth = np.random.default_rng(0).uniform(1.0, 2.0, (60, 80))
    coarse, fine = DepthToCloud(known(), stride=4).cloud(depth), DepthToCloud(known()).cloud(depth)
    assert np.array_equal(coarse.points, fine.points.reshape(60, 80, 3)[::4, ::4].reshape(-1, 3))


def test_an_image_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(59, 80\) is not of the camera's size \(60, 80\)"):
        DepthToCloud(known()).cloud(np.ones((59, 80)))


def test_points_within_a_distance_keep_their_colours() -> None:
    points = np.array([[0.0, 0.0, 0.1], [0.0, 3.0, 4.0], [0.0, 0.0, 9.0], [np.nan, 0.0, 1.0]])
    kept = clouds.within(Cloud(points, np.arange(12, dtype=np.uint8).reshape(4, 3)), 0.2, 5.0)
    assert kept.points.tolist() == [[0.0, 3.0, 4.0]] and kept.colours is not None
    assert kept.colours.tolist() == [[3, 4, 5]]


@needs_open3d
def test_open3d_makes_the_same_points_of_a_pinholes_depth() -> None:
    import open3d

    depth = np.random.default_rng(1).uniform(0.5, 9.0, (60, 80)).astype(np.float32)
    (fx, _, cx), (_, fy, cy), _ = known().matrix
    theirs = open3d.geometry.PointCloud.create_from_depth_image(
        open3d.geometry.Image(depth), open3d.camera.PinholeCameraIntrinsic(80, 60, fx, fy, cx, cy), depth_scale=1.0
    )
    assert np.allclose(np.asarray(theirs.points), DepthToCloud(known()).cloud(depth).points, atol=1e-5)


@needs_open3d
def test_a_voxel_has_one_point_the_mean() -> None:
    random = np.random.default_rng(2)
    points = random.uniform(-1.0, 1.0, (5000, 3))
    colours = np.full((5000, 3), 77, dtype=np.uint8)
    coarse = clouds.voxels(Cloud(points, colours), 0.5)
    corner = points.min(axis=0) - 0.25  # Open3D's grid begins half a cube before the least point
    cells, of = np.unique(np.floor((points - corner) / 0.5), axis=0, return_inverse=True)
    means = np.stack([points[of.ravel() == k].mean(axis=0) for k in range(len(cells))])
    assert len(coarse) == len(cells)
    assert np.allclose(coarse.points[np.lexsort(coarse.points.T)], means[np.lexsort(means.T)])
    assert (coarse.colours == 77).all()


@needs_open3d
def test_stray_points_are_left_out() -> None:
    random = np.random.default_rng(3)
    surface = np.concatenate((random.uniform(-1.0, 1.0, (2000, 2)), np.full((2000, 1), 3.0)), axis=1)
    stray = np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 1.5], [-0.5, 0.0, 5.0]])
    cloud = Cloud(np.concatenate((surface, stray)))
    for kept in (
        clouds.without_radius_outliers(cloud, 4, 0.2),
        clouds.without_statistical_outliers(cloud, 20, 3.0),
    ):
        assert (kept.points[:, 2] == 3.0).all() and len(kept) > 1900


@needs_open3d
def test_normals_stand_on_the_surface_and_look_at_the_camera() -> None:
    view = camera_view(FloorAndWall(), np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0]), CAMERA)
    cloud = clouds.with_normals(DepthToCloud(known(), far_m=3.5).cloud(view["depth"]), 0.3)
    assert cloud.normals is not None
    in_body = cloud.normals @ CAMERA.optical_rotation.T
    wall = cloud.points[:, 2] > WALL_M - 1e-4
    inside = wall & (cloud.points[:, 1] < 0.5)
    assert inside.sum() > 500
    assert np.allclose(in_body[inside], [-1.0, 0.0, 0.0], atol=0.02), "off the wall, towards the camera"


@needs_open3d
def test_no_points_stay_no_points() -> None:
    none = Cloud(np.empty((0, 3)))
    for made in (
        clouds.voxels(none, 0.1),
        clouds.without_statistical_outliers(none),
        clouds.without_radius_outliers(none, 2, 0.1),
        clouds.with_normals(none, 0.1),
    ):
        assert made.points.shape == (0, 3)
