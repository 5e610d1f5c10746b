"""Wind and wakes together, for each robot what it has on."""

from __future__ import annotations

import numpy as np

from rlstack.sim.physics.air import Air
from rlstack.sim.physics.models import NO_MODELS, PhysicsModels
from rlstack.sim.world import Wind
from tests.support.robots import crazyflie

WIND = Wind(velocity_m_s=(2.0, 0.0, 0.0))


def stacked() -> np.ndarray:
    body = np.zeros((13, 2))
    body[2], body[6] = [2.0, 1.0], 1.0
    return body


def test_wind_and_wakes_add_for_whoever_has_them_on() -> None:
    robots, speed = [crazyflie()] * 2, np.full((4, 2), 1500.0)
    both, wind = PhysicsModels(wind=True, downwash=True), PhysicsModels(wind=True)
    flow = Air(robots, [both, both], WIND).velocity(0.01, stacked(), speed)
    assert (flow[0] == 2.0).all() and flow[2, 0] == 0.0 and flow[2, 1] < -2.0
    unaware = Air(robots, [both, wind], WIND).velocity(0.01, stacked(), speed)
    np.testing.assert_array_equal(unaware, [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    sheltered = Air(robots, [wind, PhysicsModels(downwash=True)], WIND).velocity(0.01, stacked(), speed)
    assert sheltered[0].tolist() == [2.0, 0.0] and sheltered[2, 1] == flow[2, 1]


def test_still_air_is_known() -> None:
    robots = [crazyflie()] * 2
    washed = [PhysicsModels(downwash=True)] * 2
    assert Air(robots, washed).moves
    assert not Air(robots, washed, isolated=True).moves
    assert not Air(robots[:1], washed[:1]).moves
    assert not Air(robots, [NO_MODELS] * 2, WIND).moves
    assert (Air(robots, [NO_MODELS] * 2).velocity(0.01, stacked(), np.zeros((4, 2))) == 0.0).all()


def test_a_reset_draws_other_turbulence() -> None:
    robots, wind = [crazyflie()], Wind(velocity_m_s=(2.0, 0.0, 0.0), turbulence="light")
    air, again = (Air(robots, [PhysicsModels(wind=True)], wind, seed=4) for _ in range(2))
    speed = np.zeros((4, 1))
    air.reset(0)
    first, second = air.velocity(0.01, stacked()[:, :1], speed), again.velocity(0.01, stacked()[:, :1], speed)
    assert np.abs(first - second).max() > 0.01
