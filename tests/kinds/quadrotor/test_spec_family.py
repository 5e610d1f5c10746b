"""What tells one quadrotor from another."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.kinds.quadrotor.spec_family import PARAMETERS, family_parameters
from rlstack.robots.spec import STANDARD_GRAVITY

CRAZYFLIE = load_quadrotor("crazyflie")


def with_rotors(robot: Quadrotor, places: list[tuple[float, float, float]]) -> Quadrotor:
    return replace(robot, rotors=tuple(replace(r, position_m=p) for r, p in zip(robot.rotors, places)))


def test_the_crazyflies_numbers_by_hand() -> None:
    """From its published parameters, see the robot file."""
    found = family_parameters(CRAZYFLIE)
    top = 2.8816e-8 * 2272.6**2
    assert found.keys() == PARAMETERS.keys()
    assert found["mass_kg"] == 0.027
    assert found["arm_length_m"] == pytest.approx(0.028 * math.sqrt(2.0))
    assert found["thrust_to_weight"] == pytest.approx(4.0 * top / (0.027 * STANDARD_GRAVITY))
    assert found["roll_torque_to_inertia_rad_s2"] == pytest.approx(0.028 * math.sqrt(2.0) * top / 3.85e-6)
    assert found["torque_to_inertia_rad_s2"] == found["pitch_torque_to_inertia_rad_s2"]
    assert found["torque_per_thrust_m"] == 0.005964552
    assert found["rise_time_constant_s"] == found["fall_time_constant_s"] == 0.15
    assert found["rotor_width_to_length"] == pytest.approx(1.0) and found["rotor_unevenness"] == pytest.approx(0.0)


def test_torque_to_inertia_is_the_torque_that_the_rotors_can_make() -> None:
    """Two rotors at full thrust, two at none; the definition leaves out a factor of the square root of 2."""
    robot = load_quadrotor("racer")
    model, found = robot.rotor_model, family_parameters(robot)
    thrust = float(model.thrust(np.array(model.speed_max_rad_s)))
    for axis, (key, inertia) in enumerate(zip(("roll", "pitch"), robot.body.inertia_kg_m2)):
        reach = np.abs(robot.rotor_positions[:, 1 - axis])
        torque = thrust * reach.sum() / 2.0
        assert found[f"{key}_torque_to_inertia_rad_s2"] * math.sqrt(2.0) == pytest.approx(torque / inertia)
    both = (found["roll_torque_to_inertia_rad_s2"], found["pitch_torque_to_inertia_rad_s2"])
    assert found["torque_to_inertia_rad_s2"] == min(both) != max(both)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.02, 0.5), st.floats(0.02, 0.5), st.permutations(range(4)))
def test_a_rectangle_is_even_whatever_the_order_of_its_rotors(x: float, y: float, order: list[int]) -> None:
    corners = [(x, -y, 0.01), (-x, -y, 0.0), (-x, y, 0.0), (x, y, 0.0)]
    found = family_parameters(with_rotors(CRAZYFLIE, [corners[i] for i in order]))
    assert found["rotor_width_to_length"] == pytest.approx(y / x)
    assert found["rotor_unevenness"] == pytest.approx(0.0, abs=1e-12)
    assert found["arm_length_m"] == pytest.approx(math.hypot(x, y))


def test_a_rotor_out_of_line_is_uneven() -> None:
    corners = [(0.1, -0.1, 0.0), (-0.1, -0.1, 0.0), (-0.1, 0.1, 0.0), (0.14, 0.1, 0.0)]
    found = family_parameters(with_rotors(CRAZYFLIE, corners))
    assert found["rotor_unevenness"] == pytest.approx(0.03 / math.hypot(0.14, 0.1))
    plus = family_parameters(with_rotors(CRAZYFLIE, [(0.1, 0, 0), (0, -0.1, 0), (-0.1, 0, 0), (0, 0.1, 0)]))
    assert plus["rotor_unevenness"] == pytest.approx(0.5)
