"""base_navigation among what moves: its environment, its window and what reaches whoever looks ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlstack.robots import load_robot
from rlstack.schema import load
from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS
from rlstack.sim.crowds.moving_obstacles import MovingObstacles
from rlstack.tasks.catalog.base_navigation import NavigationMaps, NavigationTask
from rlstack.tasks.wheeled_base.environment import BaseEnvironment
from rlstack.tasks.wheeled_base.rewards import BaseReward, BaseTransition

COUNT, STILL = 16, 8
TASK = NavigationTask(maps=NavigationMaps(kinds=("clutter",), count=12), moving=MovingObstacles(count=(2, 3)))


def made(task: NavigationTask = TASK, seed: int = 0) -> BaseEnvironment:
    robot = task.reference(load_robot("turtlebot3_burger"))
    return task.environment(robot, task.pipeline(robot), COUNT, "cpu", seed)


@pytest.fixture(scope="module")
def environment() -> BaseEnvironment:
    return made()


def people_of(env: BaseEnvironment) -> torch.Tensor:
    """Return (P, 5, N)."""
    return env.circles[CIRCLE_ROWS * STILL :].view(-1, CIRCLE_ROWS, COUNT)


def test_settings_come_from_recipes() -> None:
    task = load(NavigationTask, {"moving": {"count": [0, 2], "sees_robot": 1.0}}, "recipe")
    assert task.moving == MovingObstacles(count=(0, 2), sees_robot=1.0)
    assert "people" not in NavigationTask().envelope() and task.envelope()["people"] == 2.0


def test_nothing_moves_by_default() -> None:
    env = made(replace(TASK, moving=MovingObstacles()))
    assert env.pedestrians is None and len(env.circles) == CIRCLE_ROWS * STILL


def test_what_moves_does_and_no_robot_starts_beside_it(environment: BaseEnvironment) -> None:
    env = environment
    for _ in range(4):
        env.restart(torch.arange(COUNT))
        begin = people_of(env).clone()
        gap = (begin[:, :2] - env.state[:2]).norm(dim=1) - begin[:, 2] - env.robot.radius_m
        assert (gap > 0.49).all()
    env.observe()
    for _ in range(5):
        env.step(torch.zeros(COUNT, 2))
    there = begin[:, 0] < 100.0
    moved = (people_of(env)[:, :2] - begin[:, :2]).norm(dim=1)
    assert there.sum() >= 2 * COUNT and (moved[there] > 0.0).all() and (moved[there] < 0.5 * 0.25 + 1e-3).all()


def test_robots_that_stand_in_the_way_are_lost_to_it() -> None:
    env = made(replace(TASK, moving=MovingObstacles(count=(3, 3), speed_m_s=(0.2, 0.25), sees_robot=0.0)))
    env.observe()
    lost = 0
    for _ in range(300):
        result = env.step(torch.zeros(COUNT, 2))
        lost += int((result.terms["lost"] < 0.0).sum())
    assert lost > 0  # who stands still touches nothing that stands still


def test_a_window_moves_them_as_steps_do() -> None:
    one, two = made(seed=3), made(seed=3)
    window = two.rollout(4, 20.0)
    one.observe()
    window.begin()
    for t in range(4):
        one.step(torch.zeros(COUNT, 2))
        window.at(window.action, t).zero_()
        window.advance(t)
    window.end()
    assert torch.allclose(people_of(one)[:, :2], people_of(two)[:, :2], atol=1e-5)


def test_looking_ahead_who_comes_nearer_is_near() -> None:
    """1 m off, at 1 m/s towards a robot that stands: in 0.7 s it is 0.1 m from the edge of it."""
    state = np.zeros(13, dtype=object)
    state[3] = 1.0
    towards = np.array([1.0, 0.0, 0.1, -1.0, 0.0], dtype=object)
    far = np.array([1e3, 1e3, 1.0, 0.0, 0.01, 0.01], dtype=object)
    nothing = np.zeros(2, dtype=object)
    goal, guide = np.array([5.0, 0.0, 0.0, 1.0]), np.array([1.0, 0.0, 5.0])
    footprint = ((0.0, 0.0, 0.1),)

    def ahead(circle: np.ndarray) -> float:
        rows = {"boxes": far, "circles": circle}
        view = BaseTransition(state, nothing, nothing, goal, guide, 1.0, 0.2, rows, footprint)
        return float(view.too_near_in(0.7, 0.2))

    away = towards * np.array([1, 1, 1, -1, 1])
    assert ahead(towards) == pytest.approx(0.25) and ahead(away) == 0.0
    assert ahead(towards * np.array([1, 1, 1, 0, 0])) == 0.0
    assert BaseReward().ahead_s == 0.7
