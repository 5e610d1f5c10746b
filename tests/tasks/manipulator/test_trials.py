"""Tasks of arms for an arm of another size: where they are, how large things are, and what five joints cannot do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator, WorkArea
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.tasks.manipulator.trials import USUAL, Region, fitted
from tests.support.arms import small_panda

SMALL = load_robot("so100")
assert isinstance(SMALL, Manipulator) and SMALL.work is not None
WORK = SMALL.work
NAMES = [name for name in TASKS.names() if name.startswith("arm_")]


@pytest.mark.parametrize("name", NAMES)
def test_an_arm_that_says_nothing_has_the_task_as_it_is(name: str) -> None:
    task = TASKS.load(name)()
    for robot in ("panda", "ur5e"):
        assert task.fitted(load_robot(robot)) is task
    assert task.workspace.corners == Region(x_m=USUAL.x_m, y_m=USUAL.y_m, z_m=USUAL.z_m).corners


@pytest.mark.parametrize("name", NAMES)
def test_regions_lie_in_its_own_as_they_lay_in_the_usual_one(name: str) -> None:
    task = TASKS.load(name)()
    small = task.fitted(SMALL)
    assert small.workspace.corners == ((0.11, -0.2, 0.015), (0.36, 0.2, 0.25))
    for region in ("starts", "goals"):
        (low, high), (least, most) = getattr(small, region).corners, small.workspace.corners
        assert all(a >= b for a, b in zip(low[:2], least[:2])) and all(a <= b for a, b in zip(high, most))
    for given in ("box", "peg", "tab"):
        if hasattr(task, given):
            before, after = getattr(task, given), getattr(small, given)
            scale = WORK.opening_m / 0.08
            assert after.half_m == pytest.approx(tuple(scale * half for half in before.half_m))
            assert after.mass_kg == pytest.approx(tuple(scale * mass for mass in before.mass_kg))
            assert after.friction == before.friction
    assert small.tolerance_m == task.tolerance_m and small.motion == task.motion
    assert small.fitted(SMALL) == small, "done once, it is done"
    back = fitted(task, USUAL)
    np.testing.assert_allclose(back.starts.corners, task.starts.corners, rtol=1e-6)


def test_what_a_recipe_says_in_metres_stays() -> None:
    mine = Region(x_m=(0.2, 0.25), y_m=(-0.05, 0.05), z_m=(0.05, 0.1))
    small = replace(TASKS.load("arm_reach")(), goals=mine).fitted(SMALL)
    assert small.goals == mine and small.starts != TASKS.load("arm_reach")().starts


def test_the_rest_of_what_a_recipe_says_in_part_is_fitted() -> None:
    task = TASKS.load("arm_pick_place")()
    mine = replace(task, box=replace(task.box, friction=(0.5, 0.6)), goals=replace(task.goals, z_m=(0.05, 0.06)))
    small, usual = mine.fitted(SMALL), task.fitted(SMALL)
    assert small.box == replace(usual.box, friction=(0.5, 0.6))
    assert small.goals == replace(usual.goals, z_m=(0.05, 0.06))


def test_no_goal_of_a_small_arm_is_done_by_a_box_that_lies_below_it() -> None:
    task = TASKS.load("arm_pick_place")().fitted(SMALL)
    trials = task.draw(SMALL, np.random.default_rng(0), 2000)
    below = trials.goal.copy()
    below[:, 2] = trials.half[:, 2]
    assert not task.done(below, trials.goal).any()
    assert (trials.goal[:, 2] <= task.goals.z_m[1]).all()


def test_who_learns_by_cameras_is_shown_it_by_a_script_for_its_own_boxes() -> None:
    task = TASKS.load("arm_pick_place_camera")()
    area = WorkArea(x_m=(0.3, 0.7), y_m=(-0.3, 0.3), z_m=(0.015, 0.5), opening_m=0.06)
    panda = replace(small_panda(16), work=area)
    some = task.environment(panda, task.pipeline(panda), 1, "cpu", 0)
    assert some.task.box == task.fitted(panda).box != task.box
    some.close()


def test_the_fingers_of_a_small_arm_are_seen_to_hold() -> None:
    task = replace(TASKS.load("arm_pick_place")(), rewards="dense")
    some = task.environment(SMALL, task.pipeline(SMALL), 4, "cpu", 1)
    earned = dict.fromkeys(some.term_names(), 0.0)
    for _ in range(60):
        terms = some.step(some.expert_action()).terms
        earned = {name: earned[name] + float(terms[name].sum()) for name in earned}
    assert earned["held"] > 1.0 and earned["lifted"] > 1.0
    some.close()


@pytest.mark.parametrize("name", ["arm_insert", "arm_drawer"])
def test_what_has_one_size_is_refused_where_the_table_is_another(name: str) -> None:
    ur5e = load_robot("ur5e")
    assert isinstance(ur5e, Manipulator)
    with pytest.raises(UserError, match=r"ur5e has a work area of its own, and this task's things have one size"):
        TASKS.load(name)().reference(replace(ur5e, work=WORK))


@pytest.mark.parametrize("name", ["arm_insert", "arm_drawer"])
def test_what_five_joints_cannot_do_is_refused_in_words(name: str) -> None:
    task = TASKS.load(name)()
    with pytest.raises(
        UserError, match=r"so100 has 5 joints, and this task needs 6, which hold the tool at a place, in"
    ):
        task.reference(SMALL)
    assert task.reference(load_robot("ur5e")).name == "ur5e"


def test_work_areas_are_checked() -> None:
    with pytest.raises(ValueError, match=r"y_m: \[0.2, -0.2\] is not allowed: the lower end must come first"):
        WorkArea(x_m=(0.1, 0.3), y_m=(0.2, -0.2), z_m=(0.0, 0.2), opening_m=0.04)
    with pytest.raises(
        ValueError, match=r"work.x_m: \[0.11, 0.5\] is not allowed: must lie in limits' workspace, \[-0.4,"
    ):
        replace(SMALL, work=replace(WORK, x_m=(0.11, 0.5)))


@pytest.mark.parametrize("name", ["arm_reach", "arm_push", "arm_pick_place"])
def test_the_scripted_expert_does_it_with_five_joints(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 64)
    task, count = TASKS.load(name)(), 8
    some = task.environment(SMALL, task.pipeline(SMALL), count, "cpu", 1)
    some.restart(torch.arange(count))
    won, over = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
    for _ in range(task.steps):
        step = some.step(some.expert_action())
        won, over = won | (step.success & ~over), over | step.done
    assert int(won.sum()) >= 7
    assert np.isfinite(some.scene.worlds.state).all()
    some.close()
