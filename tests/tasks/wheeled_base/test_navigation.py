"""base_navigation's environment and window: what robots sense, how they end, and gradients against differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.layout import STATE
from rlstack.sim.maps.generate import HELD_OUT_SEEDS
from rlstack.tasks.catalog.base_navigation import NavigationMaps, NavigationTask
from rlstack.tasks.wheeled_base.environment import BaseEnvironment
from rlstack.tasks.wheeled_base.rewards import BaseReward
from rlstack.tasks.wheeled_base.task import BaseNoise, Stages

COUNT, STEPS = 16, 6

REWARD = BaseReward(progress=1.0, near=-4.0, ahead=-2.0, turning=-0.1, action_change=-0.1, rest=-0.5, heading=-0.2)


def task_of(**changes: Any) -> NavigationTask:
    small = NavigationTask(
        maps=NavigationMaps(kinds=("clutter",), count=12), reward=REWARD, noise=BaseNoise(), curriculum=Stages()
    )
    return replace(small, **changes)


def made(task: NavigationTask | None = None, seed: int = 0, count: int = COUNT) -> BaseEnvironment:
    task = task or task_of()
    robot = task.reference(load_robot("turtlebot3_burger"))
    return task.environment(robot, task.pipeline(robot), count, "cpu", seed)


@pytest.fixture(scope="module")
def environment() -> BaseEnvironment:
    return made()


def forward(count: int = COUNT) -> Tensor:
    action = torch.zeros(count, 2)
    action[:, 0] = 1.0
    return action


def test_observations_have_the_columns_of_their_tables(environment: BaseEnvironment) -> None:
    actor, critic = environment.observe()
    rows = environment.pipeline.table()
    assert actor.shape == (COUNT, rows[-1].start + rows[-1].size)
    last = environment.critic_table()[-1]
    assert critic.shape == (COUNT, last.start + last.size)
    assert torch.isfinite(critic).all()


def test_closeness_is_what_the_lidar_measures(environment: BaseEnvironment) -> None:
    environment.restart(torch.arange(COUNT))
    actor, _ = environment.observe()
    term = next(t for t in environment.pipeline.table() if t.name == "closeness")
    half = environment.task.observation.half_m
    seen = actor[:, term.start : term.start + term.size]
    assert torch.allclose(seen, (half / (half + environment.varying()["scan"])).T, atol=1e-5)
    # and those are true: no ray is shorter than the way to the nearest obstacle, but for the noise
    free = environment.observe()[1][:, -1]
    lidar = environment.robot.lidars["scan"]
    assert (environment.varying()["scan"].amin(dim=0) > free - 0.05 - 6.0 * lidar.noise_m).all()


def test_robots_start_where_nothing_is_and_never_in_a_held_out_map(environment: BaseEnvironment) -> None:
    environment.restart(torch.arange(COUNT))
    assert (environment.observe()[1][:, -1] > 0.0).all()
    pool = environment.task.draw_maps(environment.robot, 0, np.random.default_rng(3), torch.device("cpu"))
    assert len(pool) == 12
    from rlstack.sim.maps.pool import build_pool

    drawn = build_pool(("clutter",), 40, rng=np.random.default_rng(3), fields=False)
    assert not any(m.seed in HELD_OUT_SEEDS for m in drawn.maps)


def test_who_hits_something_is_lost_and_starts_anew() -> None:
    env = made()
    env.observe()
    lost = torch.zeros(COUNT, dtype=torch.bool)
    for _ in range(400):
        result = env.step(forward())
        lost |= result.done & ~result.timed_out
        gone = result.done & (result.terms["lost"] < 0.0)
        assert (result.reward[gone] < 0.0).all()
        assert (env.age[result.done] == 0).all()
    assert lost.all()  # straight on, every robot meets a wall or the goal sooner or later


def test_it_goes_on_exactly_from_its_state() -> None:
    one = made(seed=4)
    one.observe()
    for _ in range(3):
        one.step(forward())
    saved = {k: v.clone() if isinstance(v, Tensor) else v for k, v in one.state_dict().items()}
    saved["past"] = [p.clone() for p in one.past]
    two = made(seed=4)
    two.load_state_dict(saved)
    for env in (one, two):
        env.observe()
    for _ in range(5):
        mine, other = one.step(forward()), two.step(forward())
        assert torch.equal(mine.actor, other.actor) and torch.equal(mine.reward, other.reward)


def test_the_way_leads_around_what_stands_between(environment: BaseEnvironment) -> None:
    """Whoever follows the guide comes to the goal without touching anything."""
    env = environment
    env.restart(torch.arange(COUNT))
    guide, state = torch.zeros(3, COUNT), env.state.clone()
    away = []
    for _ in range(1500):
        env.maps.guide(env.pick, state[STATE["position"]], env.goal, guide)
        state[STATE["position"]] += 0.02 * guide[:2]
        away.append(guide[2].clone())
    assert (away[-1] < 0.1).all()
    assert (away[0] > 0.5).any()


def test_a_window_goes_where_steps_go() -> None:
    """Without noise, the window and the environment's own steps are the same drive."""
    none = BaseNoise(position_m=0.0, heading_rad=0.0, linear_velocity_m_s=0.0, angular_velocity_rad_s=0.0)
    quiet = task_of(noise=none)
    robot = quiet.reference(load_robot("turtlebot3_burger"))
    robot = replace(robot, lidars={"scan": replace(robot.lidars["scan"], noise_m=0.0, noise_share=0.0, dropout=0.0)})
    envs = [quiet.environment(robot, quiet.pipeline(robot), COUNT, "cpu", 7) for _ in range(2)]
    action = 0.5 * torch.randn(STEPS, COUNT, 2, generator=torch.Generator().manual_seed(1))
    window = envs[0].rollout(STEPS, 1e6)
    window.begin()
    for t in range(STEPS):
        window.at(window.action, t).copy_(action[t].T)
        window.advance(t)
    window.end()
    envs[1].observe()
    for t in range(STEPS):
        result = envs[1].step(action[t])
        if result.done.any():
            pytest.skip("somebody started anew")
        assert torch.allclose(result.reward, window.at(window.reward, t)[0], atol=1e-5)
        assert torch.allclose(result.actor.T, window.at(window.observation, t + 1), atol=1e-4)
    assert torch.allclose(envs[0].state, envs[1].state, atol=1e-6)


def test_gradients_are_those_of_differences() -> None:
    """Of the rewards that no measured way is in: that one is taken as it is."""
    task = task_of(reward=replace(REWARD, progress=0.0))
    env = made(task, seed=2)
    start = {k: v.clone() if isinstance(v, Tensor) else v for k, v in env.state_dict().items()}
    start["past"] = [p.clone() for p in env.past]
    action = 0.4 * torch.randn(STEPS, COUNT, 2, generator=torch.Generator().manual_seed(5)).clamp(-0.9, 0.9)
    window = env.rollout(STEPS, 1e9)

    def earned(actions: Tensor) -> Tensor:
        env.load_state_dict(start)
        window.begin()
        for t in range(STEPS):
            window.at(window.action, t).copy_(actions[t].T)
            window.advance(t)
        assert not window.at_all(window.lost).any()
        return window.at_all(window.reward)[0].sum(dim=0).double()

    earned(action)
    window.at_all(window.seed).fill_(1.0)
    window.begin_reverse()
    for t in reversed(range(STEPS)):
        window.reverse(t)
    found = torch.stack([window.at(window.action_gradient, t).T.clone() for t in range(STEPS)])
    step = 3e-3
    for t in (0, STEPS - 1):
        for k in range(2):
            moved = [action.clone() for _ in range(2)]
            moved[0][t, :, k] += step
            moved[1][t, :, k] -= step
            difference = (earned(moved[0]) - earned(moved[1])) / (2.0 * step)
            near = (found[t, :, k].double() - difference).abs() <= 2e-3 + 0.03 * difference.abs()
            assert near.float().mean() >= 0.85, (t, k, found[t, :, k], difference)  # all but those at a kink


def test_a_robot_that_is_no_base_or_sees_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="crazyflie is a quadrotor"):
        task_of().reference(load_robot("crazyflie"))
    robot = replace(load_robot("turtlebot3_burger"), lidars={})
    with pytest.raises(UserError, match="no lidar called 'scan'"):
        task_of().reference(robot)


def test_harder_maps_come_with_the_stages() -> None:
    stages = Stages(stages=3, full_after=0.5)
    assert [stages.stage(done) for done in (0.0, 0.24, 0.26, 0.5, 1.0)] == [0, 0, 1, 2, 2]
    assert Stages(stages=3, full_after=0.0).stage(0.0) == 2
