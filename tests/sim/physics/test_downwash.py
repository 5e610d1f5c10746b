"""The turbulent jet's figures, its momentum, and who blows on whom."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import frames
from rlstack.sim.physics.air import AIR_DENSITY, DECAY, SPREAD, Downwash, jet_velocity
from tests.sim.physics.kernels import BOTH, compiled, tolerance
from tests.sim.physics.robots import force_and_torque
from tests.support.robots import crazyflie

AREA = 4.0 * math.pi * 0.0225**2
THRUST = 0.027 * 9.81


@BOTH
def test_the_published_formula(dtype: str) -> None:
    # Pope (2000), section 5.1: U_0 = 5.8 U_J d / x, half of it at r = 0.094 x, nothing above
    nozzle = math.sqrt(4.0 * THRUST / (math.pi * 1.225))
    places = [(1.0, 0.0), (2.0, 0.0), (1.0, 0.094), (3.0, 3 * 0.094), (-1.0, 0.0)]
    wanted = [5.8 * nozzle, 5.8 * nozzle / 2, 2.9 * nozzle, 2.9 * nozzle / 3, 0.0]
    got = compiled(lambda p: [jet_velocity(p[0], p[1] * p[1], THRUST, AREA)], dtype, p=np.array(places).T)
    np.testing.assert_allclose(got[0], wanted, rtol=10 * tolerance(dtype))


def test_the_jet_carries_the_thrust_as_momentum() -> None:
    # by theory 4 B^2 / (3 a) of it in the mean flow, 0.957; the rest is in the turbulence
    for below in (0.5, 1.0, 4.0):
        r = np.linspace(0.0, 3.0 * below, 200_001)
        flow = jet_velocity(np.full_like(r, below), r * r, THRUST, AREA)
        momentum = np.trapezoid(AIR_DENSITY * flow**2 * 2.0 * np.pi * r, r)
        share = 4.0 * DECAY**2 * SPREAD**2 / (3.0 * (math.sqrt(2.0) - 1.0))
        assert momentum / THRUST == pytest.approx(share, rel=1e-3)
        assert 0.95 < share < 0.96


def test_near_the_vehicle_it_is_the_wake_of_momentum_theory() -> None:
    developed = math.sqrt(2.0 * THRUST / (AIR_DENSITY * AREA))
    for below in (1e-6, 0.1, 0.3):
        assert jet_velocity(np.array(below), 0.0, THRUST, AREA) == pytest.approx(developed, rel=1e-12)
    assert jet_velocity(np.array(0.5), 0.0, THRUST, AREA) < developed


def test_who_blows_on_whom() -> None:
    robot = crazyflie()
    position = np.array([[0.0, 0.0, 2.0], [0.05, 0.0, 1.0], [5.0, 0.0, 1.0]]).T
    level = np.tile([[0.0], [0.0], [0.0], [1.0]], 3)
    speed = np.full((4, 3), robot.hover_speed_rad_s)
    flow = Downwash([robot] * 3).velocity(position, level, speed)
    wanted = jet_velocity(np.array(1.0), 0.05**2, THRUST, AREA)
    np.testing.assert_allclose(flow[:, 1], [0.0, 0.0, -wanted], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(flow[:, 0], 0.0, atol=1e-12)
    assert abs(flow[2, 2]) < 0.01, "one that is 5 m away feels nothing"
    speed[:, 0] = 0.0
    np.testing.assert_allclose(Downwash([robot] * 3).velocity(position, level, speed)[:, 1], 0.0, atol=1e-12)


def test_a_tilted_vehicle_blows_along_its_own_axis_and_wakes_add() -> None:
    robot, tilt = crazyflie(), 0.5
    # nose down: thrust forward and up, wake backward and down
    q = np.array([0.0, math.sin(tilt / 2), 0.0, math.cos(tilt / 2)])
    wake = -frames.rotate(q, np.array([0.0, 0.0, 1.0]))
    position = np.stack([np.zeros(3), wake * 1.5], axis=1)
    attitudes = np.stack([q, [0.0, 0.0, 0.0, 1.0]], axis=1)
    speed = np.full((4, 2), robot.hover_speed_rad_s)
    flow = Downwash([robot] * 2).velocity(position, attitudes, speed)[:, 1]
    np.testing.assert_allclose(flow, wake * jet_velocity(np.array(1.5), 0.0, THRUST, AREA), rtol=1e-9)
    twice = Downwash([robot] * 3).velocity(
        np.concatenate([position[:, :1], position], axis=1),
        np.concatenate([attitudes[:, :1], attitudes], axis=1),
        np.full((4, 3), robot.hover_speed_rad_s),
    )
    np.testing.assert_allclose(twice[:, 2], 2.0 * flow, rtol=1e-9)


@pytest.mark.parametrize("name", ["crazyflie", "x500"])
def test_the_wake_pushes_down_by_the_files_vertical_drag(name: str) -> None:
    robot, flow = load_quadrotor(name), 3.0
    assert robot.aerodynamics and robot.aerodynamics.downwash
    pushed, _ = force_and_torque(robot, air=(0.0, 0.0, -flow))
    assert pushed[2] - robot.weight_n == pytest.approx(-robot.aerodynamics.downwash.vertical_drag_n_s_per_m * flow)
    # its own fall is slowed by its linear drag alone
    falling, _ = force_and_torque(robot, velocity=(0.0, 0.0, -flow), air=(0.0, 0.0, 0.0))
    assert falling[2] - robot.weight_n == pytest.approx(robot.body.linear_drag_n_s_per_m[2] * flow, abs=1e-12)


def test_it_is_cheap_for_sixteen() -> None:
    robots = [crazyflie()] * 16
    position, level = np.random.default_rng(0).uniform(0, 3, (3, 16)), np.tile([[0.0], [0.0], [0.0], [1.0]], 16)
    downwash, speed = Downwash(robots), np.full((4, 16), 1500.0)
    best = math.inf
    for _ in range(30):
        begin = time.perf_counter()
        downwash.velocity(position, level, speed)
        best = min(best, time.perf_counter() - begin)
    assert best < 1e-3, "some 40 microseconds on a quiet machine"
