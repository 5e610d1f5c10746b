"""Parameter rows of bases: the robot file's numbers, and departures inside the ranges that it gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.spec_response import RESPONSE_PARAMETERS
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.layout import PARAMETERS
from rlstack.sim.batch_wheeled_base.parameters import Speeds, base_model, drawn, nominal


def base(name: str) -> WheeledBase:
    robot = load_robot(name)
    assert isinstance(robot, WheeledBase)
    return robot


@pytest.mark.parametrize("name", ["turtlebot3_burger", "husky", "racecar"])
def test_rows_are_the_robot_files(name: str) -> None:
    robot = base(name)
    rows, limits = nominal(robot, 3), robot.limits
    assert rows[PARAMETERS["limits"], 1] == pytest.approx(
        [-limits.linear_velocity_m_s, limits.linear_velocity_m_s, 0.0, limits.angular_velocity_rad_s]
    )
    assert rows[PARAMETERS["radius"]] == pytest.approx(robot.radius_m)
    assert rows[PARAMETERS["gain"].start] == pytest.approx(1.0 - robot.response.linear_slip)
    assert np.isfinite(rows).all()


def test_departures_stay_inside_the_files_ranges() -> None:
    robot = base("turtlebot3_burger")
    rows = drawn(robot, 500, np.random.default_rng(0))
    low, high = robot.response.range_of("command_delay_s")
    delay = rows[PARAMETERS["delay"].start]
    assert low <= delay.min() and delay.max() <= high + 1e-6
    assert high > low and np.ptp(delay) > 0.5 * (high - low)
    assert set(RESPONSE_PARAMETERS) >= {"linear_time_constant_s", "angular_slip"}
    assert base_model(robot, 10.0).past_commands == int(np.ceil(high * 10.0 - 1e-9))


def test_a_task_may_be_slower_than_the_robot_but_not_faster() -> None:
    robot = base("turtlebot3_burger")
    most = robot.limits
    slow = Speeds(forward_m_s=0.1, backward_m_s=0.0, turning_rad_s=1.0)
    assert slow.range(robot) == ((-0.0, -1.0), (0.1, 1.0))
    fast = Speeds(forward_m_s=9.0, turning_rad_s=9.0)
    assert fast.range(robot)[1] == (most.linear_velocity_m_s, most.angular_velocity_rad_s)


def test_a_racecar_steers_no_tighter_than_its_inner_wheel() -> None:
    robot = base("racecar")
    assert robot.steering is not None
    curvature, wheelbase, rate = nominal(robot, 1)[PARAMETERS["steering"], 0]
    assert 0.0 < curvature < np.tan(robot.steering.position_max_rad) / wheelbase
    assert rate == pytest.approx(robot.steering.velocity_max_rad_s)
    assert nominal(replace(robot, name="twin"), 1).shape[1] == 1
