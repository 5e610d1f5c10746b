from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.mixer import Mixer
from rlstack.control.motors import MotorModel
from rlstack.control.rotors import RotorBatch, bounded, cross, feasible, mix
from rlstack.robots.spec import STANDARD_GRAVITY
from tests.support import robots

ROBOTS = {"crazyflie": robots.crazyflie(), "large": robots.large()}


@pytest.mark.parametrize("name", ROBOTS)
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**31), size=st.floats(0.01, 20.0))
def test_many_robots_are_mixed_as_one_is(name: str, seed: int, size: float) -> None:
    mixer, random = Mixer(ROBOTS[name]), np.random.default_rng(seed)
    ends = np.sort(random.random((2, 8, 4)), axis=0)
    now = ends[0] + (ends[1] - ends[0]) * random.random((8, 4))
    now[0], now[1] = ends[0, 0], ends[1, 1]  # at their bounds, as standing and as saturated rotors are
    wanted = size * random.normal(size=(8, 4)) * np.abs(mixer.allocation).max(axis=1)
    got = mix(mixer.allocation, np.linalg.inv(mixer.allocation), wanted, now, *ends)
    for n in range(8):
        one = mixer.mix(tuple(wanted[n].tolist()), now[n].tolist(), ends[0, n].tolist(), ends[1, n].tolist())
        np.testing.assert_allclose(got[n], one, atol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_the_motor_model_and_the_lead_are_those_of_one_robot(name: str) -> None:
    robot, random = ROBOTS[name], np.random.default_rng(3)
    batch, one, mixer = RotorBatch(robot, 0.02), MotorModel(robot, 0.02), Mixer(robot)
    batch.reset(2, robot.hover_speed_rad_s)
    one.reset(robot.hover_speed_rad_s)
    thrust = robot.rotor_model.thrust
    for _ in range(20):
        wrench = np.array([robot.weight_n * random.uniform(0.5, 1.5), *(random.normal(size=3) * 1e-4)])
        command = batch.command(np.stack((wrench, -wrench)))
        low, high = one.reachable()
        thrusts = mixer.mix(tuple(wrench.tolist()), *(thrust(np.array(s)).tolist() for s in (one.speed, low, high)))
        wanted = robot.rotor_model.speed_for_thrust(np.array(thrusts))
        np.testing.assert_allclose(command[0], one.command_for(wanted.tolist()), atol=1e-6)
        one.follow(command[0].tolist(), 0.01)
        batch.follow(0.01)
        np.testing.assert_allclose(batch.speed[0], one.speed, rtol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_wanted_wrench_is_what_the_rotors_come_to_give(name: str) -> None:
    robot = ROBOTS[name]
    batch = RotorBatch(robot, 0.02)
    batch.reset(1, robot.hover_speed_rad_s)
    arm = np.abs(robot.rotor_positions[:, 1]).max()
    wanted = robot.weight_n * np.array([1.1, 0.02 * arm, -0.03 * arm, 0.0])
    for _ in range(50):
        batch.command(wanted[None])
        batch.follow(0.01)
    given_ = Mixer(robot).wrench(robot.rotor_model.thrust(batch.speed[0]).tolist())
    np.testing.assert_allclose(given_, wanted, atol=1e-6 * robot.weight_n)


def test_height_comes_before_place_and_what_was_refused_is_said() -> None:
    g = STANDARD_GRAVITY
    wanted = np.array([[1.0, 0.0, 0.0], [50.0, 0.0, 1.0], [3.0, 4.0, 99.0], [0.0, 0.0, -99.0]])
    thrust, granted = feasible(wanted, 0.5, 2.0 * g)
    np.testing.assert_allclose(thrust[0], [1.0, 0.0, g])
    np.testing.assert_allclose(thrust[1], [(g + 1.0) * np.tan(0.5), 0.0, g + 1.0])
    assert thrust[2, 2] == pytest.approx(1.8 * g) and thrust[2, 1] / thrust[2, 0] == pytest.approx(4.0 / 3.0)
    assert thrust[3, 2] == pytest.approx(0.3 * g)
    assert granted.tolist() == [[True] * 3, [False, False, True], [True, True, False], [True, True, False]]


def test_vectors_are_shortened_and_crossed() -> None:
    vectors = np.array([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(bounded(vectors, 1.0), [[0.6, 0.8, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]])
    other = np.random.default_rng(0).normal(size=(3, 3))
    np.testing.assert_allclose(cross(vectors, other), np.cross(vectors, other))
