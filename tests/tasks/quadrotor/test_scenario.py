"""Scenarios: parts of them and the same ones elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.sampling import Starts
from rlstack.tasks.quadrotor.scenario import STATE_NAMES, Scenario
from rlstack.tasks.quadrotor.task import DISTURBANCES, QuadrotorTask
from tests.support.learning import small_task


@pytest.fixture
def scenario() -> Scenario:
    return small_task().held_out(np.random.default_rng(0), 12, load_quadrotor("crazyflie"))


def test_it_holds_whole_states(scenario: Scenario) -> None:
    assert len(scenario) == 12
    assert set(scenario.state) == set(STATE_NAMES)


@pytest.mark.parametrize("index", [slice(3, 6), np.array([3, 4, 5])], ids=["slice", "array"])
def test_a_part_keeps_what_belongs_together(scenario: Scenario, index: slice | np.ndarray) -> None:
    part = scenario.take(index)
    assert len(part) == len(part.perturbation) == 3
    for name, array in scenario.state.items():
        np.testing.assert_array_equal(part.state[name], array[3:6])
    for name, array in vars(scenario.perturbation).items():
        np.testing.assert_array_equal(getattr(part.perturbation, name), array[3:6])
    np.testing.assert_array_equal(part.goal_position, scenario.goal_position[3:6])
    np.testing.assert_array_equal(part.goal_yaw, scenario.goal_yaw[3:6])
    np.testing.assert_array_equal(part.labels, scenario.labels[3:6])


def test_shifting_moves_start_and_goal_together_and_leaves_the_original(scenario: Scenario) -> None:
    before = scenario.state["position"].copy()
    offset = np.array([1.0, -2.0, 0.5])
    moved = scenario.shifted(offset)
    np.testing.assert_allclose(moved.state["position"], before + offset)
    np.testing.assert_allclose(moved.goal_position, scenario.goal_position + offset)
    np.testing.assert_allclose(moved.state["position"] - moved.goal_position, before - scenario.goal_position)
    np.testing.assert_array_equal(scenario.state["position"], before)
    for name in set(STATE_NAMES) - {"position"}:
        np.testing.assert_array_equal(moved.state[name], scenario.state[name])


def test_held_out_episodes_are_dealt_out_over_the_disturbances() -> None:
    count = 3 * len(DISTURBANCES)
    scenario = small_task().held_out(np.random.default_rng(0), count, load_quadrotor("crazyflie"))
    p = scenario.perturbation
    assert (p.force_n != 0.0).all()  # the task's own disturbance is always there
    for kind, randomisation in DISTURBANCES.items():
        mine = scenario.labels == kind
        assert mine.sum() == 3
        assert (p.gust_force_n[mine] != 0.0).all() == (randomisation.gust_sigma > 0.0)
        for drawn, limits in ((p.mass_scale, randomisation.mass), (p.thrust_scale, randomisation.thrust)):
            assert (drawn[mine] >= limits[0]).all() and (drawn[mine] <= limits[1]).all()
            assert (np.ptp(drawn[mine]) > 0.0) == (limits[0] < limits[1])


def test_held_out_episodes_do_not_depend_on_what_is_trained_on() -> None:
    robot = load_quadrotor("crazyflie")
    one, other = (
        small_task(**changes).held_out(np.random.default_rng(7), 9, robot, disturbances=False)
        for changes in ({}, {"episode_s": 3.0, "starts": Starts(position_m=0.01)})
    )
    np.testing.assert_array_equal(one.state["position"], other.state["position"])
    np.testing.assert_array_equal(one.perturbation.force_n, other.perturbation.force_n)
    assert set(one.labels) == {"task"}


FLIGHTS = [name for name in TASKS.names() if issubclass(TASKS.load(name), QuadrotorTask)]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("task", FLIGHTS)
def test_every_quadrotor_task_draws_even_a_single_episode(task: str, count: int) -> None:
    made, robot = TASKS.load(task)(), load_quadrotor("crazyflie")
    assert len(made.held_out(np.random.default_rng(0), count, robot)) == count
    assert len(made.validation(np.random.default_rng(0), count, made.reference(robot))) == count
