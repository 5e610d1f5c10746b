from __future__ import annotations

import pytest

from rlstack.tasks import TASKS
from rlstack.tasks.bounds import ENOUGH, ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria


@pytest.mark.parametrize("times", [{"from_s": 8.0}, {"from_s": 9.0}, {"to_s": 8.01}, {"duration_s": 7.9}])
def test_a_window_outside_the_flight_is_refused(times):
    with pytest.raises(ValueError, match="is not one of"):
        SuccessCriteria(**times)


def test_the_hover_task_is_judged_as_it_always_was():
    task = TASKS.load("quadrotor_hover")()
    assert task.criteria == SuccessCriteria(radius_m=0.2, from_s=3.0, to_s=8.0, lost_m=2.0, duration_s=8.0)
    assert task.bounds == Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01})
    assert task.bounds_over_topics == Bounds(
        at_least={"success": 0.93}, at_most={"lost": 0.02, "intervened": 0.05}, episodes=20
    )


def test_a_handful_of_episodes_is_no_proof():
    assert Bounds().episodes == ENOUGH == 100
    assert ENOUGH_OVER_TOPICS == 20


@pytest.mark.parametrize("name", [name for name in TASKS.names() if name.startswith("quadrotor")])
def test_every_quadrotor_task_says_by_what_it_is_judged(name):
    task = TASKS.load(name)()
    if name != "quadrotor_landmark":  # whose settings say it
        assert isinstance(task.criteria, SuccessCriteria)
    for bounds in (task.bounds, task.bounds_over_topics):
        assert isinstance(bounds, Bounds) and bounds.episodes >= ENOUGH_OVER_TOPICS


@pytest.mark.parametrize("wrong", [{"at_least": {"lost": 0.1}}, {"at_least": {"success": float("nan")}}])
def test_bounds_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(ValueError, match="bounds"):
        Bounds(at_most={"lost": 0.01}, **wrong)
