from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rlstack.robots import Lidar, frames
from rlstack.sim.sensing.captures import lidar_scan
from rlstack.sim.sensing.noise import noisy_ranges
from tests.support.seeing import WALL_M, FloorAndWall, seeing

LIDAR = Lidar(rays=360, rate_hz=10.0, range_min_m=0.1, range_max_m=6.0, position_m=(0.2, 0.0, 0.1))
UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])


def test_a_scan_of_a_wall_is_what_geometry_says() -> None:
    yaw = 0.3
    ranges = lidar_scan(FloorAndWall(), 0, np.array([0.0, 0.0, 1.0]), frames.from_yaw(yaw), LIDAR)["ranges"]
    assert ranges.shape == (360,) and ranges.dtype == np.float32
    ahead = np.cos(LIDAR.angles_rad + yaw)
    with np.errstate(divide="ignore"):
        expected = np.where(ahead > 0.0, (WALL_M - 0.2 * math.cos(yaw)) / ahead, np.inf)
    expected[expected > 6.0] = np.inf
    assert np.allclose(ranges, expected, rtol=1e-6)


def test_rings_look_up_and_down() -> None:
    lidar = replace(LIDAR, rays=8, elevations_rad=(-math.pi / 4, 0.0, 0.2))
    ranges = lidar_scan(FloorAndWall(), 0, np.array([-20.0, 0.0, 1.0]), UPRIGHT, lidar)["ranges"]
    assert ranges.shape == (3, 8)
    assert np.allclose(ranges[0], 1.1 * math.sqrt(2.0)), "all round to the floor, from 1.1 m above it"
    assert np.isposinf(ranges[1:]).all()


def test_a_lidar_that_is_mounted_askew_looks_there() -> None:
    down = replace(LIDAR, rays=1, angle_min_rad=0.0, angle_max_rad=0.0, rpy_rad=(0.0, math.pi / 2, 0.0))
    ranges = lidar_scan(FloorAndWall(), 0, np.array([0.0, 0.0, 1.0]), UPRIGHT, down)["ranges"]
    assert ranges == pytest.approx([1.1])


def test_what_is_out_of_reach_is_infinite_on_its_side() -> None:
    assert noisy_ranges(np.array([0.05, 0.1, 6.0, 6.1, np.inf]), LIDAR).tolist() == pytest.approx(
        [-np.inf, 0.1, 6.0, np.inf, np.inf]
    )


def test_noise_and_dropouts_are_as_declared() -> None:
    lidar = replace(LIDAR, noise_m=0.02, dropout=0.05)
    ranges = noisy_ranges(np.full(40_000, 2.0), lidar, np.random.default_rng(0))
    assert np.isnan(ranges).mean() == pytest.approx(0.05, abs=0.005)
    assert np.nanstd(ranges) == pytest.approx(0.02, rel=0.02) and np.nanmean(ranges) == pytest.approx(2.0, abs=1e-3)


@pytest.mark.integration
def test_noise_may_grow_with_the_range() -> None:
    lidar = replace(LIDAR, noise_m=0.0, noise_share=0.02, dropout=0.0)
    ideal = np.repeat([1.0, 4.0, np.inf], 20_000)
    near, far, nothing = noisy_ranges(ideal, lidar, np.random.default_rng(0)).reshape(3, -1)
    assert near.std() == pytest.approx(0.02, rel=0.03) and far.std() == pytest.approx(0.08, rel=0.03)
    assert np.isposinf(nothing).all()


def test_mujoco_captures_a_scan_with_the_seeds_noise() -> None:
    from rlstack.sim.backends.mujoco import BACKEND

    scan = replace(seeing().lidars["scan"], rpy_rad=(0.0, 0.5, 0.0), noise_m=0.01)
    robot = replace(seeing(), cameras={}, lidars={"scan": scan})
    ranges = []
    for seed in (None, 1, 1, 2):
        backend = BACKEND(robot, noise_seed=seed)
        backend.connect()
        backend.reset({"position": np.array([0.0, 0.0, 1.0])})
        capture = backend.capture("scan")
        assert capture.time_s == backend.read().time_s
        ranges.append(capture.arrays["ranges"])
        backend.close()
    ahead = np.argmin(np.abs(scan.angles_rad))
    assert ranges[0][ahead] == pytest.approx(1.03 / math.sin(0.5), rel=1e-5), "the floor, from 1.03 m above it"
    assert np.array_equal(ranges[1], ranges[2]) and not np.array_equal(ranges[1], ranges[3])
    hit = np.isfinite(ranges[0]) & np.isfinite(ranges[1])
    assert (ranges[1] - ranges[0])[hit].std() == pytest.approx(0.01, rel=0.4)
