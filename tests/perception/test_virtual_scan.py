"""Virtual scans: of a known world as a lidar would measure them, by brute force, and what REP-117 says of the rest."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces.image_messages import calibration
from rlstack.perception.clouds import DepthToCloud, voxels
from rlstack.perception.virtual_scan import VirtualScan, camera_lidar
from rlstack.robots import Camera, Lidar, frames
from rlstack.sim.sensing.captures import camera_view
from tests.support.seeing import WALL_M, FloorAndWall

CAMERA = Camera(
    width=160, height=120, rate_hz=5.0, horizontal_fov_rad=1.2, depth=True, rgb=False, position_m=(0.1, 0.05, 0.2)
)
LIDAR = Lidar(rays=360, rate_hz=5.0, range_min_m=0.12, range_max_m=6.0, position_m=(-0.05, 0.0, 0.15))
HEIGHTS = 0.02, 0.5
FAR_M = 8.0
EYE, NOTHING = CAMERA.position, np.empty((0, 3))


def seen(camera: Camera, heading: float = 0.0) -> tuple[Any, Any, Any]:
    """Return points, ends and what is too near of a robot at the origin, on the floor, the wall ahead."""
    depth = camera_view(FloorAndWall(), np.zeros(3), frames.from_yaw(heading), camera)["depth"]
    converter = DepthToCloud(calibration(camera), far_m=FAR_M)
    return converter.cloud(depth), *converter.lines_of_sight(depth, FAR_M)


def cast(lidar: Lidar, heading: float) -> Any:
    ways = lidar.directions[0] @ frames.to_matrix(frames.from_yaw(heading)).T
    origin = frames.to_matrix(frames.from_yaw(heading)) @ lidar.position
    return FloorAndWall().cast(0, np.tile(origin, (lidar.rays, 1)), ways, np.inf)


@pytest.mark.parametrize("heading", [0.0, 0.4, -0.7])
@pytest.mark.parametrize("pitch", [0.0, 0.3])
def test_the_wall_is_where_a_lidar_would_measure_it_and_the_floor_is_no_obstacle(heading: float, pitch: float) -> None:
    camera = replace(CAMERA, rpy_rad=(0.0, pitch, 0.2))
    cloud, ends, _ = seen(camera, heading)
    found = VirtualScan(LIDAR, camera, *HEIGHTS).ranges(cloud.points, ends)
    wanted = cast(LIDAR, heading)
    measured = np.isfinite(found)
    off = np.mod(LIDAR.angles_rad - 0.2 + np.pi, 2.0 * np.pi) - np.pi
    assert not np.isnan(found[np.abs(off) < 0.5]).any() and np.isnan(found[np.abs(off) > 0.75]).all()
    assert measured.sum() > 40
    # within half a step of a ray the wall's range changes by its slope
    slope = 0.5 * LIDAR.angle_increment_rad * wanted**2 / (WALL_M - 0.2)
    assert (np.abs(found - wanted) <= slope + 1e-3)[measured].all()
    beyond = np.isposinf(found)
    assert (wanted[beyond] > LIDAR.range_max_m - slope[beyond]).all()


def test_a_camera_that_only_sees_the_floor_knows_how_far_it_is_free() -> None:
    camera = replace(CAMERA, rpy_rad=(0.0, 1.0, 0.0))
    cloud, ends, _ = seen(camera)
    found = VirtualScan(LIDAR, camera, *HEIGHTS).ranges(cloud.points, ends)
    ahead = found[LIDAR.rays // 2]
    up = 1.0 - 0.5 * camera.vertical_fov_rad  # of the highest row below the horizon
    reach = CAMERA.position_m[0] + (EYE[2] - HEIGHTS[0]) / math.tan(up) - LIDAR.position_m[0]
    assert abs(ahead - reach) < 0.02


def test_open_3d_may_thin_the_cloud_and_no_ray_slips_between_the_points() -> None:
    if importlib.util.find_spec("open3d") is None:
        pytest.skip("Open3D (1.1 GB) is not installed: pip install 'rlstack[perception]'")
    cloud, *_ = seen(CAMERA, 0.3)
    size_m = 0.2
    few = voxels(cloud, size_m)
    assert len(few) < len(cloud) / 10
    whole = VirtualScan(LIDAR, CAMERA, *HEIGHTS).ranges(cloud.points, NOTHING)
    thin = VirtualScan(LIDAR, CAMERA, *HEIGHTS, size_m=size_m).ranges(few.points, NOTHING)
    gaps = VirtualScan(LIDAR, CAMERA, *HEIGHTS).ranges(few.points, NOTHING)
    known = np.isfinite(whole)
    assert np.isfinite(thin[known]).all() and not np.isfinite(gaps[known]).all()
    assert np.abs(thin - whole)[known].max() < 1.5 * size_m


def optical(points: Any) -> Any:
    """Return points in the camera's optical frame that are (n, 3) in base_link."""
    return (np.asarray(points, dtype=float) - EYE) @ CAMERA.optical_rotation


def scan_of(points: Any = NOTHING, ends: Any = NOTHING, **changes: Any) -> Any:
    lidar = replace(LIDAR, **changes)
    found = VirtualScan(lidar, CAMERA, *HEIGHTS).ranges(
        optical(points) if len(points) else NOTHING, optical(ends) if len(ends) else NOTHING
    )
    return found[lidar.rays // 2]  # straight ahead


def test_only_what_is_between_the_heights_blocks() -> None:
    x = LIDAR.position_m[0]
    assert scan_of([[x + 2.0, 0.0, 0.3], [x + 1.0, 0.0, 0.01], [x + 1.5, 0.0, 0.51]]) == np.float32(2.0)


def test_what_is_not_met_follows_rep_117() -> None:
    x = LIDAR.position_m[0]
    assert np.isnan(scan_of())
    assert np.isposinf(scan_of(ends=[[20.0, 0.0, 0.2]]))
    assert np.isposinf(scan_of([[x + 6.5, 0.0, 0.3]]))
    assert np.isneginf(scan_of([[x + 0.1, 0.0, 0.3]]))
    assert abs(scan_of(ends=[[x + 3.0, 0.0, 0.2]]) - 3.0) < 1e-6, "seen so far"
    assert np.isnan(scan_of([[x - 1.0, 0.0, 0.3]])), "behind"


def test_too_near_to_measure_is_in_the_way() -> None:
    camera = replace(CAMERA, near_m=0.3)
    depth = np.full((120, 160), -np.inf, dtype=np.float32)
    converter = DepthToCloud(calibration(camera), near_m=0.3, far_m=FAR_M)
    ends, near = converter.lines_of_sight(depth, FAR_M)
    assert len(converter.cloud(depth)) == 0 and len(near) == len(ends) == depth.size
    found = VirtualScan(LIDAR, camera, *HEIGHTS).ranges(near, ends)
    assert abs(found[LIDAR.rays // 2] - 0.45) < 0.01


def test_sights_end_where_depth_says() -> None:
    depth = np.full((120, 160), np.nan, dtype=np.float32)
    depth[0, :6] = [2.0, np.inf, -np.inf, 0.0, 20.0, -1.0]
    ends, near = DepthToCloud(calibration(CAMERA), near_m=0.1, far_m=5.0).lines_of_sight(depth, 5.0)
    np.testing.assert_allclose(ends[:, 2], [2.0, 5.0, 0.1, 5.0])
    np.testing.assert_allclose(near[:, 2], [0.1])
    with pytest.raises(ValueError, match="not of the camera's size"):
        DepthToCloud(calibration(CAMERA)).lines_of_sight(depth[1:], 5.0)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([360, 181, 97, 8]), st.booleans())
def test_random_points_by_brute_force(seed: int, rays: int, around: bool) -> None:
    rng = np.random.default_rng(seed)
    low, high = (0.0, 2.0 * math.pi) if around else (-2.0, 1.1)
    lidar = replace(LIDAR, rays=rays, angle_min_rad=low, angle_max_rad=high, rpy_rad=(0.0, 0.0, 0.6))
    points = rng.uniform(-4.0, 4.0, (200, 3)) * [1.0, 1.0, 0.1] + [0.0, 0.0, 0.2]
    found = VirtualScan(lidar, CAMERA, *HEIGHTS).ranges(optical(points), NOTHING)
    wanted = np.full(rays, np.inf)
    for x, y, z in points:
        if not HEIGHTS[0] <= z <= HEIGHTS[1]:
            continue
        dx, dy = x - lidar.position_m[0], y - lidar.position_m[1]
        off = np.mod(math.atan2(dy, dx) - 0.6 - lidar.angles_rad + math.pi, 2.0 * math.pi) - math.pi
        ray = int(np.argmin(np.abs(off)))
        if abs(off[ray]) <= 0.5 * lidar.angle_increment_rad:
            wanted[ray] = min(wanted[ray], math.hypot(dx, dy))
    wanted[np.isinf(wanted)] = np.nan
    wanted[wanted > lidar.range_max_m], wanted[wanted < lidar.range_min_m] = np.inf, -np.inf
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.floats(-3.0, 3.0), st.floats(0.0, 0.6), st.floats(0.5, 2.0))
def test_the_lidar_of_a_camera_looks_as_wide_as_it(yaw: float, pitch: float, fov: float) -> None:
    camera = replace(CAMERA, rpy_rad=(0.0, pitch, yaw), horizontal_fov_rad=fov)
    lidar = camera_lidar(camera, 0.2, 5.0)
    assert (lidar.range_min_m, lidar.range_max_m, lidar.rings) == (0.2, 5.0, 1)
    assert abs(lidar.angle_increment_rad - math.radians(1.0)) < 1e-3
    half = 0.5 * (lidar.angle_max_rad - lidar.angle_min_rad)
    assert half >= 0.5 * fov - 1e-9 and abs(lidar.angle_max_rad - half - yaw) < 1e-9
    if pitch == 0.0:
        assert half <= 0.5 * fov + math.radians(1.0) + 1e-9


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="a level lidar with one ring"):
        VirtualScan(replace(LIDAR, rpy_rad=(0.0, 0.1, 0.0)), CAMERA, *HEIGHTS)
    with pytest.raises(ValueError, match="a level lidar with one ring"):
        VirtualScan(replace(LIDAR, elevations_rad=(0.0, 0.1)), CAMERA, *HEIGHTS)
    with pytest.raises(ValueError, match="the lower comes first"):
        VirtualScan(LIDAR, CAMERA, 0.5, 0.5)
