"""Cheeseman and Bennett's formula, its limits, and what it does to a whole robot."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.robots import frames
from rlstack.sim.physics.rotor import ground_effect
from tests.sim.physics.kernels import BOTH, compiled, tolerance
from tests.sim.physics.robots import force_and_torque
from tests.support.robots import crazyflie

RADII_AND_GAINS = [(0.5, 4.0 / 3.0), (1.0, 16.0 / 15.0), (2.0, 64.0 / 63.0), (0.1, 4.0 / 3.0), (-1.0, 4.0 / 3.0)]
"""Height in rotor radii, and 1 / (1 - (r / 4z)^2) by hand; from half a radius down it stays."""


@BOTH
def test_the_published_formula(dtype: str) -> None:
    heights, wanted = np.array(RADII_AND_GAINS).T
    got = compiled(lambda z: [ground_effect(0.1 * z[0], 0.1, 1.0)], dtype, z=heights[None])
    np.testing.assert_allclose(got[0], wanted, rtol=tolerance(dtype))


def test_a_fitted_coefficient_and_a_robot_upside_down() -> None:
    # Sanchez-Cuevas et al. give the same formula a factor: at one radius 1 / (1 - 2 / 16)
    np.testing.assert_allclose(ground_effect(np.array(0.1), 0.1, 2.0), 8.0 / 7.0, rtol=1e-14)
    assert ground_effect(np.array(0.1), 0.1, 1.0, np.array(False)) == 1.0
    assert ground_effect(np.array(0.1), 0.1, 0.0) == 1.0


def test_a_crazyflie_lifts_more_near_the_floor() -> None:
    robot = crazyflie()
    r = robot.rotor_model.radius_m
    for height in (0.02, 0.05, 0.1, 1.0):
        force, torque = force_and_torque(robot, position=(0, 0, height), switches={"ground_effect": True})
        assert force[2] / robot.weight_n == pytest.approx(1.0 / (1.0 - (r / (4.0 * height)) ** 2), rel=1e-12)
        np.testing.assert_allclose(torque, 0.0, atol=1e-15)


def test_each_rotor_has_its_own_height() -> None:
    robot, height, roll = crazyflie(), 0.04, 0.3
    q = np.array([np.sin(roll / 2), 0.0, 0.0, np.cos(roll / 2)])
    force, torque = force_and_torque(robot, position=(0, 0, height), orientation=q, switches={"ground_effect": True})
    rotors = height + frames.rotate(q, robot.rotor_positions)[:, 2]
    lift = 0.25 * robot.weight_n / (1.0 - (robot.rotor_model.radius_m / (4.0 * rotors)) ** 2)
    np.testing.assert_allclose(force, frames.rotate(q, np.array([0, 0, lift.sum()])), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(torque[0], robot.rotor_positions[:, 1] @ lift, rtol=1e-9)
    assert torque[0] < 0.0, "the lower side is pushed up: the floor straightens the robot"


def test_the_floor_may_be_anywhere_and_off_is_off() -> None:
    robot = crazyflie()
    low, _ = force_and_torque(robot, position=(0, 0, 0.05), switches={"ground_effect": True})
    above, _ = force_and_torque(robot, position=(0, 0, 7.05), floor=7.0, switches={"ground_effect": True})
    np.testing.assert_allclose(above, low, rtol=1e-9)
    off, _ = force_and_torque(robot, position=(0, 0, 0.05), switches={"ground_effect": False})
    assert off[2] == pytest.approx(robot.weight_n, rel=1e-12)
