"""Rays through a PyBullet world, against the formulas."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="PyBullet has wheels up to Python 3.11 only")

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.sim.world import load_world
from tests.support.bullet import body, built


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


def test_rays_go_as_far_as_the_formulas_say(robot: Quadrotor) -> None:
    world = load_world("warehouse:3")
    engine = built(robot, world=world)
    engine.place(0, body((0.0, 0.0, 50.0)))
    random = np.random.default_rng(0)
    low, high = (np.array(corner) for corner in world.bounds_m)
    origins = random.uniform(low, high, (4000, 3))
    origins = origins[world.distance(origins) > 0.05]
    directions = random.normal(size=(len(origins), 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    got = engine.cast(0, origins, directions, 20.0)
    expected = world.cast(origins, directions, 20.0)
    # Bullet rounds the edges of shapes by its collision margin of 1 mm, which a grazing ray may miss
    agrees = np.isclose(got, expected, rtol=0.0, atol=0.01)
    assert agrees.mean() > 0.998
    assert np.median(np.abs(got - expected)[np.isfinite(expected) & np.isfinite(got)]) < 1e-6


def test_more_rays_than_pybullet_takes_at_once(robot: Quadrotor) -> None:
    engine = built(robot, world=None)
    engine.place(0, body((0.0, 0.0, 50.0)))
    heights = np.linspace(0.1, 5.0, 20000)
    origins = np.stack([np.zeros(20000), np.zeros(20000), heights], axis=1)
    got = engine.cast(0, origins, np.tile([0.0, 0.0, -1.0], (20000, 1)), 4.0)
    np.testing.assert_allclose(got, np.where(heights <= 4.0, heights, np.inf), atol=1e-9)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_ray_passes_its_own_robot_and_meets_others_unless_isolated(robot: Quadrotor, isolated: bool) -> None:
    engine = built(robot, robot, world=None, isolated=isolated)
    engine.place(0, body((0.0, 0.0, 1.0)))
    engine.place(1, body((1.0, 0.0, 1.0)))
    outside, inside = [-0.5, 0.0, 1.0], [0.0, 0.0, 1.0]
    got = engine.cast(0, np.array([outside, inside]), np.array([[1.0, 0.0, 0.0]] * 2), 3.0)
    edge = 1.0 - robot.body.collision_radius_m
    np.testing.assert_allclose(got, [np.inf] * 2 if isolated else [0.5 + edge, edge], atol=5e-3)
