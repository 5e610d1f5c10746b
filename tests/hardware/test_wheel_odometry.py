"""Poses of bases by their wheels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.wheel_odometry import DifferentialWheels, WheelOdometry
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames, load_robot

BURGER = WheeledBase.load("turtlebot3_burger")


def test_a_circle_ends_where_it_began_and_half_of_it_on_the_other_side() -> None:
    odometry = WheelOdometry(DifferentialWheels(BURGER, "test"))
    radius, steps = 0.5, 50
    signals = {}
    for k in range(steps + 1):
        turned = np.array([radius - 0.08, radius + 0.08]) * math.pi * k / steps / 0.033
        signals = odometry.signals(0.1 * k, turned, turned / 5.0)
    np.testing.assert_allclose(signals["position"], [0.0, 2.0 * radius, 0.01], atol=1e-9)
    np.testing.assert_allclose(np.abs(signals["orientation"]), np.abs(frames.from_yaw(math.pi)), atol=1e-9)


def test_an_axle_behind_the_middle_swings_the_middle() -> None:
    wheels = tuple(replace(wheel, position_m=(-0.1, *wheel.position_m[1:])) for wheel in BURGER.wheels)
    odometry = WheelOdometry(DifferentialWheels(replace(BURGER, wheels=wheels), "test"))
    quarter = 0.08 * 0.5 * math.pi / 0.033
    odometry.signals(0.0, np.zeros(2), np.zeros(2))
    signals = odometry.signals(2.0, np.array([-quarter, quarter]), np.array([-1.0, 1.0]))
    np.testing.assert_allclose(signals["position"][:2], [-0.1, 0.1], atol=1e-9)
    turn = 2.0 * 0.033 / 0.16
    np.testing.assert_allclose(signals["linear_velocity"], [0.0, 0.1 * turn, 0.0], atol=1e-12)


def test_a_counter_that_starts_again_moves_nothing() -> None:
    odometry = WheelOdometry(DifferentialWheels(BURGER, "test"))
    odometry.signals(0.0, np.array([500.0, 500.0]), np.zeros(2))
    signals = odometry.signals(0.05, np.zeros(2), np.zeros(2))
    assert signals["position"][:2] == pytest.approx([0.0, 0.0])
    signals = odometry.signals(0.1, np.array([0.1, 0.1]), np.zeros(2))
    assert signals["position"][0] == pytest.approx(0.0033)


def test_only_bases_with_two_wheels_have_it() -> None:
    with pytest.raises(UserError, match=r"husky is not a differential base with two wheels: the driver 'x'"):
        DifferentialWheels(load_robot("husky"), "x")
    with pytest.raises(UserError, match="crazyflie is not a differential base"):
        DifferentialWheels(load_robot("crazyflie"), "x")
