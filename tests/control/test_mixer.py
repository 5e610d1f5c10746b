from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.arrays import Array
from rlstack.control.mixer import Mixer, mix
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation, inverse_allocation
from tests.support import robots

ROBOTS = {"crazyflie": robots.crazyflie(), "large": robots.large()}
fraction = st.floats(0.0, 1.0)
four = st.tuples(fraction, fraction, fraction, fraction)


def mixed(robot: Quadrotor, *rows: Sequence[float] | Array) -> Array:
    """Return the thrusts (4,) of one robot: wanted wrench, present, least and largest thrusts."""
    return mix(allocation(robot), inverse_allocation(robot), *(np.array([row], dtype=float) for row in rows))[0]


def test_signs_by_hand() -> None:
    robot = ROBOTS["crazyflie"]
    matrix = allocation(robot)
    arm, kappa = 0.028, robot.rotor_model.torque_per_thrust_m
    np.testing.assert_allclose(matrix @ [0.0, 0.0, 1.0, 1.0], (2.0, 2 * arm, 0.0, 0.0), atol=1e-15)  # left: roll +
    np.testing.assert_allclose(matrix @ [0.0, 1.0, 1.0, 0.0], (2.0, 0.0, 2 * arm, 0.0), atol=1e-15)  # rear: pitch +
    np.testing.assert_allclose(matrix @ [0.0, 1.0, 0.0, 1.0], (2.0, 0.0, 0.0, 2 * kappa), atol=1e-15)


@pytest.mark.parametrize("name", ROBOTS)
@settings(deadline=None)
@given(thrusts=four)
def test_what_is_possible_is_given_exactly(name: str, thrusts: tuple[float, ...]) -> None:
    robot = ROBOTS[name]
    wanted = allocation(robot) @ thrusts
    got = mixed(robot, wanted, [0.5] * 4, [0.0] * 4, [1.0] * 4)
    # Yaw comes last: all else must fit before it is added, or a part of it is given up.
    present = allocation(robot) @ ([0.5] * 4)
    before_yaw = np.linalg.solve(allocation(robot), [*wanted[:3], present[3]])
    if np.all((before_yaw >= 0.0) & (before_yaw <= 1.0)):
        np.testing.assert_allclose(got, thrusts, atol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
@settings(deadline=None)
@given(
    wrench=st.tuples(*(st.floats(-20.0, 20.0) for _ in range(4))),
    edges=st.tuples(four, four),
    where=four,
)
def test_bounds_hold_and_roll_and_pitch_come_before_thrust_before_yaw(
    name: str, wrench: tuple[float, ...], edges: tuple[tuple[float, ...], ...], where: tuple[float, ...]
) -> None:
    robot = ROBOTS[name]
    low, high = np.minimum(*edges), np.maximum(*edges)
    now = low + (high - low) * where
    matrix = allocation(robot)
    scale = np.array([1.0, *np.abs(matrix[1:]).max(axis=1)])
    wanted = np.array(wrench) * scale
    got = mixed(robot, wanted, now, low, high)
    assert np.all(got >= low)
    assert np.all(got <= high)
    present, reached = matrix @ now, matrix @ got
    asked, given_ = (wanted - present) / scale, (reached - present) / scale
    # The roll and pitch change keeps its direction and never overshoots.
    assert abs(asked[1] * given_[2] - asked[2] * given_[1]) < 1e-6
    share = given_[1:3] @ asked[1:3] / max(asked[1:3] @ asked[1:3], 1e-12)
    assert -1e-6 <= share <= 1.0 + 1e-6 or np.linalg.norm(asked[1:3]) < 1e-3
    if np.linalg.norm(asked[1:3]) > 1e-3 and share < 1.0 - 1e-6:
        # It fell short although thrust and yaw were free to give way: no common lift fits a larger share.
        lift, more = (
            np.linalg.inv(matrix)[:, 0],
            np.linalg.inv(matrix) @ (np.array([0.0, *(asked[1:3] * scale[1:3]), 0.0]) * (share + 1e-3)),
        )
        least, most = np.max((low - now - more) / lift), np.min((high - now - more) / lift)
        assert least > most


def test_thrust_gives_way_to_roll_and_yaw_to_both() -> None:
    robot = ROBOTS["crazyflie"]
    full = float(robot.rotor_model.thrust(np.array(robot.rotor_model.speed_max_rad_s)))
    roll = 0.028 * 1.0 * full  # half of what the rotors can do at medium thrust
    got = allocation(robot) @ mixed(robot, (4.0 * full, roll, 0.0, 1.0), [0.5 * full] * 4, [0.0] * 4, [full] * 4)
    assert got[1] == pytest.approx(roll)
    assert got[0] == pytest.approx(3.5 * full - 0.5 * full)
    assert got[3] == pytest.approx(0.0, abs=1e-12)


def test_rotors_in_a_line_are_refused() -> None:
    robot = robots.crazyflie()
    flat = tuple(replace(r, position_m=(r.position_m[0], 0.0, 0.0)) for r in robot.rotors)
    with pytest.raises(UserError, match=r"cannot give thrust, roll, pitch and yaw independently"):
        inverse_allocation(replace(robot, rotors=flat))


def test_centre_of_mass_outside_the_rotors_is_refused() -> None:
    robot = robots.crazyflie()
    x, y, z = zip(*(r.position_m for r in robot.rotors))
    ahead = tuple(replace(r, position_m=(a + 0.1, b, c)) for r, a, b, c in zip(robot.rotors, x, y, z))
    with pytest.raises(UserError, match="must surround the centre of mass"):
        inverse_allocation(replace(robot, rotors=ahead))


@pytest.mark.parametrize("name", ROBOTS)
def test_a_wanted_wrench_is_what_the_rotors_come_to_give(name: str) -> None:
    robot = ROBOTS[name]
    mixer = Mixer(robot, 0.02)
    mixer.reset(3, robot.hover_speed_rad_s)
    arm = np.abs(robot.rotor_positions[:, 1]).max()
    wanted = robot.weight_n * np.array([1.1, 0.02 * arm, -0.03 * arm, 0.0])
    wanted = wanted * [[1.0], [0.9], [0.8]]
    for _ in range(50):
        mixer.command(wanted)
        mixer.follow(0.01)
    reached = robot.rotor_model.thrust(mixer.speed) @ allocation(robot).T
    np.testing.assert_allclose(reached, wanted, atol=1e-6 * robot.weight_n)
