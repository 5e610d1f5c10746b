"""An arm at its task in an engine: what stands there, what is sensed, and that trials begin where they say."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.evaluation.arm_cell import ArmCell, world_of
from rlstack.evaluation.manipulation import held_out
from rlstack.tasks.catalog.arm_drawer import DrawerTask
from rlstack.tasks.catalog.arm_insert import InsertTask
from rlstack.tasks.catalog.arm_push import PushTask
from rlstack.tasks.catalog.arm_reach import ReachTask
from rlstack.tasks.catalog.arm_stack import StackTask
from tests.guard.reaching import panda

ROBOT = panda()


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_an_object_stands_where_its_trial_says_and_is_sensed_with_noise(engine: str) -> None:
    task = PushTask()
    trials = held_out(task, ROBOT, 2, 3)
    cell = ArmCell(engine, task, ROBOT, trials, seed=1)
    cell.connect()
    try:
        before_s = -1.0
        for number in range(2 if engine == "mujoco" else 1):
            cell.enter(number)
            cell.write({"joint_target": trials.joints[number]})
            for _ in range(10):
                cell.step(0.01)
            reading = cell.read()
            assert reading.time_s > before_s  # time goes on from trial to trial
            before_s = reading.time_s
            np.testing.assert_allclose(cell.achieved, trials.position[number], atol=2e-3)
            sensed, again = reading.signals, cell.read().signals
            assert all(np.array_equal(sensed[name], again[name]) for name in sensed)  # drawn once a period
            off = sensed["object_position"] - cell.achieved
            assert 0.0 < np.abs(off).max() < 6.0 * task.noise.object_m
            np.testing.assert_allclose(sensed["joint_position"], trials.joints[number], atol=0.01)
            np.testing.assert_allclose(
                np.abs(sensed["object_orientation"] @ trials.orientation[number]), 1.0, atol=1e-3
            )
            assert not cell.lost and np.array_equal(cell.goal, trials.goal[number])
    finally:
        cell.close()


def test_the_noise_of_a_trial_is_its_own_whoever_has_which_share() -> None:
    task = ReachTask()
    trials = held_out(task, ROBOT, 3, 3)
    whole, part = (
        ArmCell("mujoco", task, ROBOT, trials, 7),
        ArmCell("mujoco", task, ROBOT, trials.take(np.arange(2, 3)), 7, 2),
    )
    seen = []
    for cell, number in ((whole, 2), (part, 0)):
        cell.connect()
        cell.enter(number)
        cell.step(0.01)
        seen.append(cell.read().signals["joint_position"])
        cell.close()
    np.testing.assert_array_equal(seen[0], seen[1])


def test_the_hole_of_a_peg_stands_around_its_goal() -> None:
    task = InsertTask()
    trials = held_out(task, ROBOT, 1, 3)
    peg, *walls = world_of(task, trials, 0).obstacles
    assert peg.name == "object" and peg.mass_kg > 0.0 and peg.position_m == tuple(trials.position[0])
    goal, half_width = trials.goal[0], trials.half[0, 0]
    assert len(walls) == 4 and all(wall.mass_kg == 0.0 and wall.friction == 0.3 for wall in walls)
    for wall in walls:
        away = np.abs(np.array(wall.position_m) - goal)[:2] - 0.5 * np.array(wall.size_m)[:2]
        assert away.max() == pytest.approx(half_width + 0.5 * task.clearance_m) and wall.lowest_m == pytest.approx(0.0)


def test_the_box_that_is_stacked_on_stands_below_the_goal_and_carries_the_other() -> None:
    task = StackTask()
    trials = held_out(task, ROBOT, 1, 3)
    trials.position[0] = trials.goal[0]  # as if it were done
    _, lower = world_of(task, trials, 0).obstacles
    assert lower.mass_kg == trials.mass[0] and lower.friction == trials.friction[0]
    assert lower.lowest_m == pytest.approx(0.0, abs=1e-9) and lower.yaw_rad == -trials.yaw[0]
    assert lower.highest_m == pytest.approx(trials.goal[0, 2] - trials.half[0, 2])
    cell = ArmCell("mujoco", task, ROBOT, trials, seed=1)
    cell.connect()
    try:
        cell.write({"joint_target": trials.joints[0]})
        for _ in range(50):
            cell.step(0.01)
        assert task.done(cell.achieved[None], trials.goal[:1])[0] and not cell.lost
    finally:
        cell.close()


def test_what_an_engine_cannot_hold_or_time_is_refused() -> None:
    task = DrawerTask()
    with pytest.raises(UserError, match="scene of DrawerTask is known to the batch simulator alone"):
        world_of(task, held_out(task, ROBOT, 1, 3), 0)
    odd = ReachTask(rate_hz=30.0)
    with pytest.raises(UserError, match="no whole multiple of the task's 30 Hz"):
        ArmCell("mujoco", odd, ROBOT, held_out(odd, ROBOT, 1, 3), 0)
