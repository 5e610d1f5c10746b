"""Foerster's rotor drag, and that it takes the linear drag's place."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.robots import frames
from rlstack.sim.physics.rotor import rotor_drag
from tests.sim.physics.kernels import BOTH, compiled, tolerance
from tests.sim.physics.robots import force_and_torque
from tests.support.robots import crazyflie

FOERSTER = np.array([9.1785e-7, 9.1785e-7, 10.311e-7])
"""kg, from the thesis."""


@BOTH
def test_the_published_formula(dtype: str) -> None:
    speed = np.array([[1000.0, 0.0], [1500.0, 0.0], [2000.0, 0.0], [500.0, 10.0]])
    got = compiled(lambda k, w: rotor_drag(k, w), dtype, k=FOERSTER, w=speed)
    np.testing.assert_allclose(got, FOERSTER[:, None] * [5000.0, 10.0], rtol=tolerance(dtype))


def test_a_crazyflies_drag_in_every_direction() -> None:
    robot, speed = crazyflie(), 1700.0
    q = frames.normalise(np.array([0.2, -0.1, 0.3, 0.9]))
    velocity, air = np.array([2.0, -1.0, 0.5]), np.array([0.5, 0.5, 0.0])
    switches = {"rotor_drag": True, "ground_effect": False}
    moving, _ = force_and_torque(robot, orientation=q, velocity=velocity, air=air, speed=speed, switches=switches)
    still, _ = force_and_torque(robot, orientation=q, speed=speed, switches=switches)
    inverse = q * [-1.0, -1.0, -1.0, 1.0]
    wanted = frames.rotate(q, -FOERSTER * 4.0 * speed * frames.rotate(inverse, velocity - air))
    np.testing.assert_allclose(moving - still, wanted, rtol=1e-9)


def test_in_hover_it_is_the_files_linear_drag_and_not_both() -> None:
    robot = crazyflie()
    linear, _ = force_and_torque(robot, velocity=(1.0, 0.0, 0.0))
    rotors, _ = force_and_torque(robot, velocity=(1.0, 0.0, 0.0), switches={"rotor_drag": True})
    assert linear[0] == pytest.approx(-5.57e-3, rel=1e-12)
    assert rotors[0] == pytest.approx(linear[0], rel=2e-3), "the file's was rounded"
    stopped, _ = force_and_torque(robot, velocity=(1.0, 0.0, 0.0), speed=0.0, switches={"rotor_drag": True})
    assert (stopped == 0.0).all()
