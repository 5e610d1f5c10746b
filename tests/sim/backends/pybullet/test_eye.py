"""What PyBullet renders: depth, colours, and which pixel shows what."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="PyBullet has wheels up to Python 3.11 only")

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.robots.sensing import OPTICAL, Camera
from rlstack.sim.obstacle import Obstacle
from tests.support.bullet import body, built, world_with


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


LEVEL = OPTICAL
"""Optical axes of a camera that looks along x."""


@pytest.mark.parametrize(
    "lens",
    [{"horizontal_fov_rad": 1.2}, {"fx_px": 91.3, "fy_px": 102.7, "cx_px": 50.2, "cy_px": 60.1}],
    ids=["plain", "off centre"],
)
def test_depth_is_along_the_optical_axis_and_pixels_are_opencvs(robot: Quadrotor, lens: dict[str, float]) -> None:
    wall = Obstacle(name="wall", shape="box", size_m=(0.2, 40.0, 40.0), position_m=(4.1, 0.0, 0.0))
    post = Obstacle(
        name="post", shape="box", size_m=(0.02, 0.3, 0.2), position_m=(2.01, 0.25, -0.4), colour=(1.0, 0.0, 0.0)
    )
    engine = built(robot, world=world_with(wall, post))
    engine.place(0, body((0.0, 0.0, 50.0)))
    camera = Camera(width=128, height=96, rate_hz=10.0, depth=True, **lens)  # type: ignore[arg-type]
    view = engine.look(np.zeros(3), LEVEL, camera, ("rgb", "depth"))
    assert view.rgb is not None and view.depth is not None
    assert (view.rgb.shape, view.rgb.dtype) == ((96, 128, 3), np.uint8)
    assert (view.depth.shape, view.depth.dtype) == ((96, 128), np.float32)
    near = view.depth < 3.0
    np.testing.assert_allclose(view.depth[~near], 4.0, rtol=1e-4)
    np.testing.assert_allclose(view.depth[near], 2.0, rtol=1e-4)
    # the post is where its corners are projected to: a pixel belongs to it if its middle does
    k = camera.intrinsics
    u = k[0, 2] + k[0, 0] * np.array([-0.4, -0.1]) / 2.0  # left is y above 0
    v = k[1, 2] + k[1, 1] * np.array([0.3, 0.5]) / 2.0
    columns, rows = np.arange(128), np.arange(96)
    expected = ((rows > v[0]) & (rows < v[1]))[:, None] & ((columns > u[0]) & (columns < u[1]))
    assert (near != expected).sum() == 0
    red = (view.rgb[..., 0] > 100) & (view.rgb[..., 1] < 50)
    np.testing.assert_array_equal(red, expected)


def test_a_slanted_floor_is_as_deep_as_its_plane_in_every_pixel(robot: Quadrotor) -> None:
    engine = built(robot, world=None)
    engine.place(0, body((0.0, 0.0, 50.0)))
    turned = frames.to_matrix(frames.from_rotation_vector([0.0, 0.5, 0.0])) @ LEVEL  # looks down by 29 degrees
    camera = Camera(width=64, height=64, rate_hz=10.0, horizontal_fov_rad=1.0, far_m=3.0, depth=True)
    view = engine.look(np.array([0.3, -0.2, 1.1]), turned, camera, ("depth",))
    assert view.rgb is None and view.depth is not None
    columns, rows = np.meshgrid(np.arange(64), np.arange(64))
    k = camera.intrinsics
    rays = np.stack([(columns - k[0, 2]) / k[0, 0], (rows - k[1, 2]) / k[1, 1], np.ones((64, 64))], axis=-1) @ turned.T
    with np.errstate(divide="ignore"):
        expected = np.where(rays[..., 2] < 0.0, -1.1 / rays[..., 2], np.inf)
    expected[expected > 3.0] = np.inf
    assert np.isinf(expected).any() and np.isfinite(expected).any()
    np.testing.assert_allclose(view.depth, expected, rtol=1e-3)


@pytest.mark.parametrize("isolated", [True, False])
def test_other_robots_are_seen_unless_isolated(robot: Quadrotor, isolated: bool) -> None:
    engine = built(robot, robot, isolated=isolated)
    engine.place(0, body((0.0, 0.0, 0.0)))
    engine.place(1, body((0.3, 0.0, 0.0)))
    camera = Camera(width=32, height=32, rate_hz=10.0, horizontal_fov_rad=1.0, depth=True)
    view = engine.look(np.array([0.0, 0.0, 0.0]), LEVEL, camera, ("depth",))
    assert view.depth is not None
    assert np.isfinite(view.depth).any() != isolated
