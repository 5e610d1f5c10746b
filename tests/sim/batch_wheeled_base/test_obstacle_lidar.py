"""Ranges among random obstacles against a ray caster in double precision, and what every lidar must do at edges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.fused import zeros
from rlstack.fused.devices import TEST_DEVICE
from rlstack.interfaces.scan_messages import finite_ranges
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M, ABSENT_SIZE_M, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.obstacle_lidar import ObstacleLidar
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.shapes import Shapes
from tests.sim.batch_wheeled_base import random_maps

AROUND = np.linspace(-np.pi, np.pi, 36, endpoint=False)
MOUNT = (0.12, -0.05, 0.4)
EDGE_M, RELATIVE = 3e-5, 3e-5
"""What single precision may move an obstacle's edge by, and a range."""


def lidar(boxes: int, circles: int, device: str = "cpu", **changes: Any) -> ObstacleLidar:
    given = {"mount_xy_m": MOUNT[:2], "mount_yaw_rad": MOUNT[2], "angles_rad": AROUND, "spacing_rad": None, **changes}
    (x, y), yaw, spacing = given.pop("mount_xy_m"), given.pop("mount_yaw_rad"), given.pop("spacing_rad")
    file = {"range_min_m": 0.1, "range_max_m": 8.0, "noise_m": 0.0, "noise_share": 0.0, "dropout": 0.0, **given}
    file["angles_rad"] = np.asarray(file["angles_rad"])
    seen: Any = SimpleNamespace(
        position_m=(x, y, 0.0), rpy_rad=(0.0, 0.0, yaw), angle_increment_rad=spacing or np.inf, **file
    )
    return ObstacleLidar(seen, boxes, circles, None if spacing is None else range(len(seen.angles_rad)), device)


def measured(sensor: ObstacleLidar, state: Any, boxes: Any, circles: Any, noise: Any = None) -> Any:
    ranges = zeros(sensor.rays, state.shape[1])
    sensor(state, boxes, circles, ranges, noise)
    return ranges


LIDAR = lidar(5, 3)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 4.0, 9.0]), st.sampled_from([0.1, 0.7, 6.0]))
def test_random_maps(seed: int, extent_m: float, size_m: float) -> None:
    rng, count = np.random.default_rng(seed), 33
    state = random_maps.states(rng, count, extent_m)
    boxes = random_maps.boxes(rng, 5, count, extent_m, size_m)
    circles = random_maps.circles(rng, 3, count, extent_m, size_m)
    found = measured(LIDAR, state, boxes, circles)
    most, least = (
        np.clip(random_maps.cast(state, boxes, circles, AROUND, MOUNT, grown), 0.1, 8.0) for grown in (-EDGE_M, EDGE_M)
    )
    assert (found >= least * (1.0 - RELATIVE)).all()
    assert (found <= most * (1.0 + RELATIVE)).all()
    assert found.min() >= np.float32(0.1) and found.max() <= np.float32(8.0)


def test_the_world_that_engines_load_gives_the_same_ranges() -> None:
    rng = np.random.default_rng(0)
    state = random_maps.states(rng, 1, 1.0)
    state[STATE["position"]] = 0.0
    boxes, circles = random_maps.boxes(rng, 5, 1, 4.0, 1.0), random_maps.circles(rng, 3, 1, 4.0, 0.5)
    stands = [
        Obstacle(
            name=f"box_{k}",
            shape="box",
            size_m=(2.0 * b[4], 2.0 * b[5], 1.0),
            position_m=(b[0], b[1], 0.0),
            yaw_rad=float(np.arctan2(b[3], b[2])),
        )
        for k, b in enumerate(boxes.astype(float).reshape(5, 6))
    ] + [
        Obstacle(name=f"pole_{k}", shape="cylinder", size_m=(2.0 * c[2], 2.0 * c[2], 1.0), position_m=(c[0], c[1], 0.0))
        for k, c in enumerate(circles.astype(float).reshape(3, 5))
    ]
    z, w = state[STATE["turn"], 0].astype(float)
    heading = 2.0 * np.arctan2(z, w)
    along = heading + MOUNT[2] + AROUND
    place = np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]]) @ MOUNT[:2]
    directions = np.stack([np.cos(along), np.sin(along), np.zeros(len(along))], axis=1)
    reach = Shapes(stands).cast(np.tile([*place, 0.0], (len(along), 1)), directions)
    found = measured(LIDAR, state, boxes, circles)[:, 0]
    assert (reach < 8.0).sum() > 10
    np.testing.assert_allclose(found, np.clip(reach, 0.1, 8.0), rtol=1e-4)


def at(x: float, y: float, yaw: float = 0.0, count: int = 1) -> Any:
    state = zeros(STATE_WIDTH, count)
    state[STATE["position"]] = [[x], [y]]
    state[STATE["turn"]] = [[np.sin(yaw / 2.0)], [np.cos(yaw / 2.0)]]
    return state


def column(*rows: float) -> Any:
    return np.array(rows, np.float32)[:, None]


NO_BOX = column(ABSENT_M, ABSENT_M, 1.0, 0.0, ABSENT_SIZE_M, ABSENT_SIZE_M)
NO_CIRCLE = column(ABSENT_M, ABSENT_M, ABSENT_SIZE_M, 0.0, 0.0)
CROSS = {"angles_rad": np.radians([-90.0, 0.0, 90.0, 180.0]), "mount_xy_m": (0.0, 0.0), "mount_yaw_rad": 0.0}


def test_absent_obstacles_are_not_met() -> None:
    assert (measured(lidar(1, 1), at(1.0, -2.0, 0.3), NO_BOX, NO_CIRCLE) == 8.0).all()


def test_without_obstacles_there_is_nothing_to_meet() -> None:
    nothing = np.zeros((0, 1), np.float32)
    assert (measured(lidar(0, 0), at(1.0, -2.0, 0.3), nothing, nothing) == 8.0).all()


@pytest.mark.parametrize("yaw", [0.0, 0.5 * np.pi, np.pi, 0.7])
def test_a_box_ahead_with_the_lidar_in_its_middle_plane_and_beside_it(yaw: float) -> None:
    c, s = np.cos(yaw), np.sin(yaw)
    for offset in (0.0, 0.3, -0.49):
        box = column(3.0 * c - offset * s, 3.0 * s + offset * c, c, s, 1.0, 0.5)
        found = measured(lidar(1, 1, **CROSS), at(0.0, 0.0, yaw), box, NO_CIRCLE)
        np.testing.assert_allclose(found[:, 0], [8.0, 2.0, 8.0, 8.0], rtol=1e-5)


def test_inside_an_obstacle_all_around_is_blocked() -> None:
    for box, circle in (
        (column(0.2, 0.1, 1.0, 0.0, 1.0, 1.0), NO_CIRCLE),
        (column(0.0, 0.0, 0.6, 0.8, 3.0, 0.01), NO_CIRCLE),
        (NO_BOX, column(0.2, 0.1, 0.5, 0.0, 0.0)),
        (NO_BOX, column(0.0, 0.0, 0.5, 0.0, 0.0)),
    ):
        found = measured(lidar(1, 1, **CROSS), at(0.0, 0.0), box, circle)
        assert (found == np.float32(0.1)).all()


def test_on_the_surface_only_the_obstacle_is_met() -> None:
    box, circle = column(1.0, 0.0, 1.0, 0.0, 0.9999, 0.5), column(0.0, -1.0, 0.9999, 0.0, 0.0)
    found = measured(lidar(1, 1, **CROSS), at(0.0, 0.0), box, circle)[:, 0]
    np.testing.assert_allclose(found, [0.1, 0.1, 8.0, 8.0])


def test_rays_that_pass_are_told_from_rays_that_touch() -> None:
    for gap, met in ((-1e-4, True), (1e-4, False)):
        ahead = 5.0
        circle = column(ahead, 0.3 + gap, 0.3, 0.0, 0.0)
        round_ = measured(lidar(1, 1, **CROSS), at(0.0, 0.0), NO_BOX, circle)[1, 0]
        box = column(ahead, 0.3 + gap, 1.0, 0.0, 0.2, 0.3)
        square = measured(lidar(1, 1, **CROSS), at(0.0, 0.0), box, NO_CIRCLE)[1, 0]
        if met:
            np.testing.assert_allclose(round_, ahead - np.sqrt(0.3**2 - (0.3 - 1e-4) ** 2), rtol=1e-4)
            np.testing.assert_allclose(square, 4.8, rtol=1e-5)
        else:
            assert round_ == square == 8.0


def test_a_wall_beside_the_lidar_is_met_far_ahead_at_a_flat_angle() -> None:
    angles = np.radians([0.5, 1.0, 5.0])
    wall = column(0.0, 0.15, 1.0, 0.0, 100.0, 0.1)  # its side 5 cm to the left
    found = measured(lidar(1, 1, **{**CROSS, "angles_rad": angles}), at(0.0, 0.0), wall, NO_CIRCLE)
    np.testing.assert_allclose(found[:, 0], 0.05 / np.sin(angles), rtol=1e-4)


def test_what_is_behind_is_not_met() -> None:
    found = measured(
        lidar(1, 1, **CROSS), at(0.0, 0.0), column(-2.0, 0.0, 1.0, 0.0, 0.5, 0.5), column(0.0, -2.0, 0.5, 0, 0)
    )
    np.testing.assert_allclose(found[:, 0], [1.5, 8.0, 8.0, 1.5], rtol=1e-5)


@pytest.mark.parametrize(
    ("noise_m", "noise_share", "sigma"), [(0.05, 0.0, 0.05), (0.0, 0.02, 0.04), (0.03, 0.02, 0.05)]
)
def test_noise_is_constant_or_a_share_of_the_range_or_both(noise_m: float, noise_share: float, sigma: float) -> None:
    box = column(3.0, 0.0, 1.0, 0.0, 1.0, 10.0)
    sensor = lidar(1, 1, noise_m=noise_m, noise_share=noise_share, **CROSS)
    found = measured(sensor, at(0.0, 0.0), box, NO_CIRCLE, np.full((4, 1), 1.5, np.float32))
    np.testing.assert_allclose(found[:, 0], [8.0, 2.0 + 1.5 * sigma, 8.0, 8.0], rtol=1e-5)


def test_noise_is_added_to_what_is_met_and_clipped() -> None:
    box = column(2.0, 0.0, 1.0, 0.0, 1.0, 10.0)
    for normal, ahead in ((1.0, 1.05), (-2.0, 0.9), (-100.0, 0.1), (1000.0, 8.0)):
        found = measured(
            lidar(1, 1, noise_m=0.05, **CROSS), at(0.0, 0.0), box, NO_CIRCLE, np.full((4, 1), normal, np.float32)
        )
        np.testing.assert_allclose(found[:, 0], [8.0, ahead, 8.0, 8.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("angles", "turns"),
    [
        (np.radians(np.arange(0.0, 360.0, 2.0)), True),
        (np.radians(np.arange(0.0, 361.0, 2.5)), True),
        (np.radians(np.arange(-100.0, 101.0, 1.0)), False),
        (np.radians(np.arange(0.0, 360.0, 6.0)), False),
        (np.radians([-4.0, 0.0, 4.0]), False),
        ([0.3], False),
    ],
)
def test_rays_that_drop_out_read_what_the_signal_scan_makes_of_nan(angles: Any, turns: bool) -> None:
    rng, count = np.random.default_rng(5), 40
    state = random_maps.states(rng, count, 5.0)
    boxes, circles = random_maps.boxes(rng, 5, count, 5.0, 1.0), random_maps.circles(rng, 3, count, 5.0, 0.5)
    noise = zeros(len(angles), count)
    noise[:] = rng.normal(size=noise.shape)
    share = 0.3
    found = measured(lidar(5, 3, angles_rad=angles, dropout=share), state, boxes, circles, noise)
    clean = measured(lidar(5, 3, angles_rad=angles), state, boxes, circles)
    lost = np.abs(noise) > 1.0364334  # the normal distribution's 85% quantile
    assert abs(lost.mean() - share) < 5.0 * np.sqrt(share / lost.size)
    step = float(np.diff(angles)[0]) if len(angles) > 1 else 0.0
    wanted = finite_ranges(
        np.where(lost, np.nan, clean).T, increment_rad=step, range_min_m=0.1, range_max_m=8.0, turns=turns
    )
    np.testing.assert_allclose(found, wanted.T, rtol=1e-6)
    assert (found != clean).any()


def test_a_few_rays_of_a_dense_scan_have_neighbours_that_are_not_cast() -> None:
    rng, angles = np.random.default_rng(5), np.radians(np.arange(0.0, 360.0, 10.0))
    state, noise = random_maps.states(rng, 40, 5.0), zeros(36, 40)
    noise[:] = rng.normal(size=noise.shape)
    obstacles = random_maps.boxes(rng, 5, 40, 5.0, 1.0), random_maps.circles(rng, 3, 40, 5.0, 0.5)
    clean = measured(lidar(5, 3, angles_rad=angles), state, *obstacles)
    for spacing, same in ((np.radians(1.0), True), (np.radians(10.0), False), (None, False)):
        sensor = lidar(5, 3, angles_rad=angles, dropout=0.3, spacing_rad=spacing)
        assert np.array_equal(measured(sensor, state, *obstacles, noise), clean) == same


def test_prepared_once_it_measures_what_has_moved() -> None:
    state, ranges = at(0.0, 0.0), zeros(4, 1)
    box = column(3.0, 0.0, 1.0, 0.0, 1.0, 10.0)
    measure = lidar(1, 1, **CROSS).prepare(state, box, NO_CIRCLE, ranges)
    for x in (0.0, 0.5, -1.0):
        state[STATE["position"]] = [[x], [0.0]]
        measure()
        np.testing.assert_allclose(ranges[1], 2.0 - x, rtol=1e-6)


def test_the_text_for_cuda_measures_the_same() -> None:
    pytest.importorskip("warp")
    rng, count = np.random.default_rng(9), 20
    state = random_maps.states(rng, count, 5.0)
    boxes, circles = random_maps.boxes(rng, 5, count, 5.0, 1.0), random_maps.circles(rng, 3, count, 5.0, 0.5)
    noise = zeros(36, count)
    noise[:] = rng.normal(size=noise.shape)
    made = [
        measured(lidar(5, 3, noise_m=0.02, device=device), state, boxes, circles, noise)
        for device in ("cpu", TEST_DEVICE)
    ]
    np.testing.assert_allclose(made[0], made[1], rtol=1e-4)


def test_dropouts_of_rays_that_are_not_evenly_spaced_are_refused() -> None:
    with pytest.raises(ValueError, match="evenly spaced"):
        lidar(1, 1, dropout=0.1, angles_rad=np.array([0.0, 0.01, 0.03]))
