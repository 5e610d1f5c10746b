"""What is special about stacking and pulling: letting go counts, and a drawer's tab is where its slide has it."""

from __future__ import annotations

import mujoco
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.sim.arms.scene import build_scene
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.tasks.catalog.arm_drawer import DrawerTask
from rlstack.tasks.catalog.arm_stack import LOWER, StackTask
from rlstack.tasks.manipulator.rewards import CLEAR_M, HELD_M, placed
from rlstack.tasks.manipulator.scene import ArmScene
from rlstack.tasks.manipulator.trials import OBJECT


def panda() -> Manipulator:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


ROBOT = panda()
REST = np.array([drive.rest for drive in ROBOT.drives])
POINTS = st.tuples(*[st.floats(-1.0, 1.0)] * 3)


@settings(deadline=None)
@given(POINTS, POINTS, POINTS)
def test_nothing_is_stacked_while_the_hand_is_at_it(tool: tuple, thing: tuple, goal: tuple) -> None:
    task = StackTask()
    at, there, wanted = (np.array([point]) for point in (tool, thing, goal))
    achieved = task.achieved(at, there)
    away = float(np.linalg.norm(at - there))
    if away >= CLEAR_M:
        np.testing.assert_allclose(achieved, there, atol=1e-9)
    else:
        np.testing.assert_allclose(achieved - there, [[0.0, 0.0, HELD_M + CLEAR_M - away]], atol=1e-5)
    single = placed(torch.from_numpy(at), torch.from_numpy(there))
    np.testing.assert_allclose(single.numpy(), achieved, atol=1e-12)
    # a box that is held at its goal is not done, and one that stands there alone is
    held, alone = there + np.array([0.0, 0.0, 0.01]), there + np.array([0.0, 0.0, CLEAR_M + 1e-6])
    assert not task.done(task.achieved(held, there), there)[0]
    assert task.done(task.achieved(alone, there), there)[0]
    # nor one that lies on the table at the place of a goal above it, wherever the hand is near it
    below = wanted - np.array([0.0, 0.0, 0.04])
    near = below + 0.03 * (at - below) / (np.linalg.norm(at - below) + 1e-9)
    assert not task.done(task.achieved(near, below), wanted)[0]
    off = np.abs(achieved - wanted)[0]
    done = bool(task.done(achieved, wanted)[0])
    assert done == (np.hypot(off[0], off[1]) < task.tolerance_m and off[2] < 0.006)
    assert task.reward_of(achieved, wanted)[0] == (0.0 if done else -1.0)


def test_both_boxes_stand_where_the_trial_has_them_and_stay() -> None:
    task = StackTask()
    trials = task.draw(ROBOT, np.random.default_rng(5), 6)
    apart = np.linalg.norm((trials.goal - trials.position)[:, :2], axis=1)
    assert (apart >= task.apart_m).all()
    scene = ArmScene(task, ROBOT, 6, 0, threads=1)
    scene.start(np.arange(6), trials)
    for _ in range(4):
        scene.worlds.step(trials.joints)
    below = trials.goal - np.array([0.0, 0.0, 2.0]) * trials.half
    np.testing.assert_allclose(scene.worlds.pose(LOWER)[0], below, atol=2e-3)
    np.testing.assert_allclose(below[:, 2], trials.half[:, 2])
    np.testing.assert_allclose(scene.worlds.pose(OBJECT)[0], trials.position, atol=2e-3)
    assert not task.done(scene.achieved(), scene.goal).any()
    scene.close()


def test_a_tab_is_where_mujoco_has_it_however_far_it_is_out() -> None:
    task = DrawerTask()
    trials = task.draw(ROBOT, np.random.default_rng(6), 5)
    scene = ArmScene(task, ROBOT, 5, 0, threads=1)
    scene.start(np.arange(5), trials)
    worlds = scene.worlds
    np.testing.assert_allclose(worlds.pose(OBJECT)[0], trials.position, atol=1e-9)
    np.testing.assert_allclose(worlds.pose(OBJECT)[1], trials.orientation, atol=1e-9)
    out = np.linspace(0.0, 0.19, 5)
    worlds.state[:, 1 + int(worlds.model.joint(OBJECT).qposadr[0])] = out
    place, turn = worlds.pose(OBJECT)
    data = mujoco.MjData(worlds.model)
    for k, model in enumerate(worlds._models):
        mujoco.mj_setState(model, data, worlds.state[k], mujoco.mjtState.mjSTATE_FULLPHYSICS)
        mujoco.mj_kinematics(model, data)
        body = model.body(OBJECT).id
        np.testing.assert_allclose(place[k], data.xpos[body], atol=1e-9)
        np.testing.assert_allclose(turn[k], data.xquat[body][[1, 2, 3, 0]], atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(place - trials.position, axis=1), out, atol=1e-9)
    open_ = np.isclose(out, task.open_m, atol=task.tolerance_m)
    np.testing.assert_array_equal(task.done(scene.achieved(), scene.goal), open_)
    scene.close()


def test_a_drawers_rails_hold_it_until_they_are_pulled_harder_than_they_rub() -> None:
    task = DrawerTask()
    worlds = make_mujoco_simulator(
        build_scene(ROBOT, task.build), ROBOT.drives, 2, period_s=0.05, varied=True, threads=1
    )
    everyone = np.arange(2)
    goal = np.tile([0.45, 0.0, 0.1], (2, 1))
    half = np.tile([0.0225, 0.008, 0.015], (2, 1))
    task.vary_objects(worlds, everyone, goal, half, np.array([1.0, 1.0]), np.array([0.8, 0.8]))
    worlds.restart(everyone, np.tile(REST, (2, 1)))
    worlds.brake(everyone, OBJECT, np.array([4.0, 0.5]))
    speed = 1 + worlds.model.nq + int(worlds.model.joint(OBJECT).dofadr[0])
    worlds.state[:, speed] = 0.2
    for _ in range(10):
        worlds.step(np.tile(REST, (2, 1)))
    far, near = worlds.slide(OBJECT)[[1, 0]]
    assert 0.003 < near < 0.01 < far, "half of m v squared over the force: 5 mm, and 40 less what the damping takes"
    worlds.close()
