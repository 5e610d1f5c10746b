from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks.quadrotor.paths import Paths
from tests.support.learning import small_task


def paths(seed: int, count: int = 3, points: int = 5) -> Paths:
    random = np.random.default_rng(seed)
    time = np.cumsum(random.uniform(0.1, 2.0, (count, points)), axis=1)
    return Paths(time, random.normal(size=(count, points, 3)), random.uniform(-3.0, 3.0, (count, points)))


@given(st.integers(0, 1000), st.floats(-5.0, 20.0))
@settings(deadline=None, max_examples=50)
def test_all_times_at_once_are_each_of_them(seed, time_s):
    drawn = paths(seed)
    times = np.array([time_s, time_s + 0.5, 0.0])
    over = drawn.over(times)
    assert over.shape == (3, 3, 3)
    for t, row in zip(times, over):
        np.testing.assert_allclose(row, drawn.at(t), atol=1e-12)


def test_it_rests_before_the_first_pose_and_after_the_last():
    drawn = paths(1)
    over = drawn.over(np.array([-1e9, 1e9]))
    np.testing.assert_array_equal(over[0], drawn.position[:, 0])
    np.testing.assert_array_equal(over[1], drawn.position[:, -1])
    np.testing.assert_array_equal(drawn.over(drawn.time_s[0])[:, 0], drawn.position[0])


def test_a_part_and_a_shift_keep_times():
    drawn = paths(2)
    part = drawn.take(np.array([2])).shifted(np.array([0.0, 0.0, 2.5]))
    np.testing.assert_array_equal(part.time_s, drawn.time_s[[2]])
    np.testing.assert_allclose(part.at(1.0), drawn.at(1.0)[[2]] + [0.0, 0.0, 2.5])


def test_time_that_does_not_go_on_is_refused():
    drawn = paths(3)
    with pytest.raises(ValueError, match="must increase"):
        Paths(drawn.time_s[:, ::-1], drawn.position, drawn.yaw)
    with pytest.raises(ValueError, match="must be"):
        Paths(drawn.time_s[:, :1], drawn.position[:, :1], drawn.yaw[:, :1])


def test_a_scenario_knows_where_its_robots_ought_to_be():
    scenario = small_task().held_out(np.random.default_rng(0), 3, load_quadrotor("crazyflie"))
    times = np.array([0.0, 1.0])
    np.testing.assert_array_equal(scenario.goal_over(times), np.stack([scenario.goal_position] * 2))
    offset = np.array([1.0, 0.0, 0.0])
    moving = replace(scenario, path=paths(4)).shifted(offset)
    np.testing.assert_allclose(moving.goal_over(times)[1], paths(4).at(1.0) + offset)
