"""Battery sag: the published curve, the circuit, and a flight until it is empty."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.sim.physics.battery import Batteries, current, electrical_power, open_circuit_voltage, top_speed
from tests.sim.physics.kernels import BOTH, compiled, tolerance
from tests.support.robots import crazyflie, large

CHEN_RINCON_MORA = {1.0: 4.1029, 0.5: 3.8034, 0.2: 3.7250, 0.1: 3.6746, 0.0: 2.654}
"""State of charge: volts, equation 2 by hand."""


@BOTH
def test_the_published_open_circuit_voltage(dtype: str) -> None:
    charge = np.array([list(CHEN_RINCON_MORA)])
    got = compiled(lambda s: [open_circuit_voltage(s[0])], dtype, s=charge)
    np.testing.assert_allclose(got[0], list(CHEN_RINCON_MORA.values()), atol=1.5e-4)
    exact = [
        -1.031 * math.exp(-35.0 * s) + 3.685 + 0.2156 * s - 0.1178 * s**2 + 0.3201 * s**3 for s in CHEN_RINCON_MORA
    ]
    np.testing.assert_allclose(got[0], exact, rtol=tolerance(dtype))


@settings(deadline=None)
@given(st.floats(0.0, 300.0), st.floats(3.0, 17.0), st.floats(1e-3, 0.5))
def test_current_times_voltage_is_the_power(power: float, unloaded: float, resistance: float) -> None:
    found = float(current(power, unloaded, resistance))
    most = unloaded**2 / (4.0 * resistance)
    delivered = (unloaded - resistance * found) * found
    assert delivered == pytest.approx(min(power, most), rel=1e-6, abs=1e-9)
    assert found <= unloaded / (2.0 * resistance) * (1.0 + 1e-9)


@BOTH
def test_power_goes_with_thrust_to_three_halves_and_speed_with_voltage(dtype: str) -> None:
    thrust = np.array([[1.0, 2.0, 4.0, 0.0]] * 4)
    got = compiled(lambda t: [electrical_power(t, 1.0, 8.0)], dtype, t=thrust)
    np.testing.assert_allclose(got[0], [8.0, 8.0 * 2.0**1.5, 64.0, 0.0], rtol=tolerance(dtype))
    speeds = compiled(lambda v: [top_speed(v[0], 3.7, 2000.0)], dtype, v=np.array([[4.1, 3.7, 3.33]]))
    np.testing.assert_allclose(speeds[0], [2000.0, 2000.0, 1800.0], rtol=tolerance(dtype))


def hover(batteries: Batteries, seconds: float, speed: float, step_s: float = 0.1) -> float:
    """Fly until the charge is gone; return for how long."""
    rotors = np.full((4, len(batteries.charge)), speed)
    for k in range(round(seconds / step_s)):
        batteries.advance(step_s, rotors)
        if batteries.charge[0] <= 0.0:
            return k * step_s
    return seconds


def test_a_crazyflie_hovers_for_its_seven_minutes() -> None:
    robot = crazyflie()
    batteries = Batteries([robot])
    begin = batteries.voltage[0]
    batteries.advance(0.01, np.full((4, 1), robot.hover_speed_rad_s))
    drawn = batteries.current[0]
    assert begin == pytest.approx(4.1029, abs=1e-4)
    assert drawn * batteries.voltage[0] == pytest.approx(7.9, rel=1e-9)
    assert batteries.voltage[0] == pytest.approx(begin - 0.1 * drawn, rel=1e-6)
    assert hover(batteries, 900.0, robot.hover_speed_rad_s) == pytest.approx(7 * 60.0, rel=0.05)


def test_full_throttle_from_a_low_battery_is_less() -> None:
    robot = crazyflie()
    batteries = Batteries([robot, large()])
    highest = robot.rotor_model.speed_max_rad_s
    assert batteries.top_speed[0] == highest
    batteries.reset(0, charge=0.2)
    full = np.array([[highest, 1000.0]] * 4)
    batteries.advance(0.01, full)
    assert batteries.voltage[0] < 3.3 and batteries.top_speed[0] == pytest.approx(
        highest * batteries.voltage[0] / 3.7, rel=1e-12
    )
    assert batteries.top_speed[1] == large().rotor_model.speed_max_rad_s, "who has no battery never runs low"
    assert list(batteries.present) == [True, False]
    batteries.reset(0)
    assert batteries.top_speed[0] == highest and batteries.charge[0] == 1.0 and batteries.current[0] == 0.0


def test_the_charge_is_what_flowed() -> None:
    robot = crazyflie()
    assert robot.battery is not None
    small = replace(robot, battery=replace(robot.battery, capacity_ah=0.001))
    batteries = Batteries([robot, small])
    drawn = np.zeros(2)
    for speed in np.linspace(500.0, 2000.0, 50):
        batteries.advance(0.02, np.full((4, 2), speed))
        drawn += 0.02 * batteries.current
    np.testing.assert_allclose(batteries.charge, 1.0 - drawn / (3600.0 * np.array([0.25, 0.001])), rtol=1e-12)
    off = Batteries([robot], on=[False])
    off.reset(charge=0.01)
    assert off.top_speed[0] == robot.rotor_model.speed_max_rad_s
