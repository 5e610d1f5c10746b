"""Sticks for rates and thrust: known points of Betaflight's curves, and there and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rlstack.hardware.betaflight.sticks import ACTUAL_RATES, BETAFLIGHT_RATES, AxisRates, RateStick, Throttle
from rlstack.robots import load_robot

ACTUAL = AxisRates(ACTUAL_RATES, 7, 67, 0, 1998, 0)
OLD = AxisRates(BETAFLIGHT_RATES, 100, 70, 0, 1998, 0)
BENT = AxisRates(ACTUAL_RATES, 20, 80, 50, 1998, 5)
LIMITED = AxisRates(ACTUAL_RATES, 7, 67, 0, 300, 0)


def degrees(rates: AxisRates, offset: float) -> float:
    return math.degrees(float(rates.rate_rad_s(np.array([offset]))[0]))


def test_the_curves_pass_through_betaflights_points() -> None:
    assert degrees(ACTUAL, 500) == pytest.approx(670.0)
    assert degrees(ACTUAL, 250) == pytest.approx(0.5 * 70 + 600 * 0.25)  # centre sensitivity, then the square
    assert degrees(OLD, 500) == pytest.approx(200.0 / 0.3)
    assert degrees(OLD, 250) == pytest.approx(100.0 / 0.65)
    assert degrees(LIMITED, -500) == pytest.approx(-300.0)
    assert degrees(BENT, 5) == 0.0 and degrees(BENT, 500) == pytest.approx(800.0)


@pytest.mark.parametrize("rates", [ACTUAL, OLD, BENT, LIMITED])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_rate_comes_back_as_its_nearest_stick(rates: AxisRates, sign: int) -> None:
    stick = RateStick(rates, sign)
    for wanted in np.linspace(-stick.most_rad_s, stick.most_rad_s, 41):
        offset, said = stick.offset(float(wanted))
        assert said == pytest.approx(sign * math.radians(degrees(rates, offset)))
        for other in (offset - 1, offset + 1):
            if abs(other) <= 500:
                assert abs(said - wanted) <= abs(sign * math.radians(degrees(rates, other)) - wanted) + 1e-12
    assert stick.offset(99.0)[0] == sign * 500 or rates is LIMITED


def test_the_stick_of_no_rate_is_the_middle() -> None:
    assert RateStick(ACTUAL, 1).offset(0.0) == (0, 0.0)
    assert RateStick(BENT, -1).offset(0.0)[1] == 0.0


def test_throttle_gives_the_thrust_of_the_robot_file() -> None:
    robot: Any = load_robot("racer")
    throttle = Throttle(robot, 0.055, 1050)
    for wanted in (6.0, 9.81, 20.0):
        pulse, said = throttle.pulse(wanted)
        command = 0.055 + 0.945 * (pulse - 1050) / 950
        lift = 4 * float(robot.rotor_model.thrust(np.array(command * 2800.0))) / robot.body.mass_kg
        assert said == pytest.approx(lift) and lift == pytest.approx(wanted, abs=0.05)
    assert throttle.pulse(-1.0)[0] == 1050 and throttle.pulse(1e3)[0] == 2000


def test_a_measured_hover_throttle_scales_the_motors() -> None:
    robot: Any = load_robot("racer")
    measured = Throttle(robot, 0.055, 1050, hover=0.31)
    assert measured.hover == pytest.approx(0.31)
    assert measured.pulse(9.81)[0] == round(1050 + 0.31 * 950)
    assert measured.pulse(9.81)[1] == pytest.approx(9.81, abs=0.05)
