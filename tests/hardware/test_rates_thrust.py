from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.rates_thrust import RATES_THRUST, RatesThrust
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import load_robot


def test_a_command_is_kept_within_the_robot_files_range() -> None:
    robot = load_quadrotor("x500_rates")
    limited = RatesThrust(robot)
    assert limited({RATES_THRUST: np.array([1.0, -2.0, 0.5, 9.0])}).tolist() == [1.0, -2.0, 0.5, 9.0]
    most = limited({RATES_THRUST: np.array([50.0, -50.0, 50.0, 500.0])})
    assert most == pytest.approx([4.0, -4.0, 2.0, robot.thrust_to_weight * 9.81])
    assert limited({RATES_THRUST: np.array([0.0, 0.0, 0.0, -1.0])})[3] == 0.0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({RATES_THRUST: np.zeros(3)}, "shape"),
        ({RATES_THRUST: np.array([0.0, 0.0, np.inf, 1.0])}, "finite"),
        ({"rotor_speed": np.zeros(4)}, "takes rates_thrust, not rotor_speed"),
        ({}, "not nothing"),
    ],
)
def test_what_is_no_such_command_is_refused(command: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RatesThrust(load_quadrotor("x500_rates"))(command)


@pytest.mark.parametrize(("name", "takes"), [("x500", "rotor_speed"), ("so100", "joint_target")])
def test_a_robot_that_takes_another_command_is_refused(name: str, takes: str) -> None:
    with pytest.raises(UserError, match=f"{name} takes {takes}.*rate_loop"):
        RatesThrust(load_robot(name))
