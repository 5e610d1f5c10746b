"""The racing task's step: what it senses and commands, who is lost, and gradients against finite differences."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.layout import STATE
from rlstack.tasks.catalog.base_racing import RacingNoise, RacingTask
from rlstack.tasks.wheeled_base.racing.environment import RacingEnvironment

TASK = RacingTask(tracks=4, noise=RacingNoise(linear_velocity_m_s=0.0, angular_velocity_rad_s=0.0))


@pytest.fixture(scope="module")
def robot() -> WheeledBase:
    robot = load_robot("racecar")
    assert isinstance(robot, WheeledBase)
    return robot


@pytest.fixture(scope="module")
def environment(robot: WheeledBase) -> RacingEnvironment:
    return TASK.environment(robot, TASK.pipeline(robot), 64, "cpu", 0)


def test_it_looks_at_rays_from_side_to_side_more_of_them_ahead(robot: WheeledBase) -> None:
    chosen = TASK.ray_indices(robot)
    assert list(chosen) == sorted(set(chosen)) and chosen[0] >= 0 and chosen[-1] < robot.lidars["scan"].rays
    angles = robot.lidars["scan"].angles_rad[list(chosen)]
    np.testing.assert_allclose(angles, -angles[::-1], atol=1e-9)
    assert np.diff(angles).max() < np.radians(6.5) and np.diff(angles).min() < np.radians(1.3)
    assert len(chosen) == TASK.pipeline(robot).table()[0].size


def test_an_action_changes_the_speed_by_what_a_period_allows_and_sets_the_curvature(robot: WheeledBase) -> None:
    pipeline = TASK.pipeline(robot)
    inputs = {
        "scan": torch.ones(3, 1081),
        "linear_velocity": torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]),
        "angular_velocity": torch.zeros(3, 3),
    }
    memory = {"commanded": torch.tensor([[2.1, 0.0], [0.0, 0.0], [4.5, 0.0]])}
    action = torch.tensor([[1.0, 0.5], [-1.0, 1.0], [0.0, -1.0]])
    prepared = pipeline.prepare(inputs, memory)
    twist = pipeline.command(action, prepared)
    # faster by 5.4 m/s^2; never slower than 0.5 m/s; never more than 1 m/s ahead of what is measured
    np.testing.assert_allclose(twist[:, 0], [2.1 + 5.4 / 20.0, 0.5, 3.0], rtol=1e-5)
    np.testing.assert_allclose(twist[:, 1] / twist[:, 0], [0.6025, 1.205, -1.205], rtol=1e-3)
    np.testing.assert_allclose(pipeline.remember(prepared, memory, action)["commanded"][:, 0], twist[:, 0])


def test_whoever_goes_through_a_wall_is_lost_and_starts_anew_on_a_track(environment: RacingEnvironment) -> None:
    environment.reset_all()
    environment.age.zero_()
    environment.observe()
    straight = torch.tensor([[1.0, 0.0]]).repeat(environment.count, 1)
    ended = torch.zeros(environment.count, dtype=torch.bool)
    for _ in range(120):  # no track goes straight on for this long
        made = environment.step(straight)
        assert made.terms["lost"][made.done & ~made.timed_out].eq(TASK.reward.lost).all()
        ended |= made.done
        aside = made.critic[:, -4]
        assert (aside.abs() < 1.0).all(), "everybody is on a track again"
    assert ended.all()


def test_it_goes_on_exactly_from_its_state(environment: RacingEnvironment) -> None:
    environment.reset_all()
    environment.observe()
    kept = copy.deepcopy(environment.state_dict())
    action = torch.full((environment.count, 2), 0.3)
    first = [environment.step(action).reward.clone() for _ in range(5)]
    environment.load_state_dict(kept)
    environment.observe()
    environment.load_state_dict(kept)
    again = [environment.step(action).reward.clone() for _ in range(5)]
    for one, other in zip(first, again):
        torch.testing.assert_close(one, other)


def test_gradients_are_what_finite_differences_say(environment: RacingEnvironment) -> None:
    """Of the reward of eight steps by each action of the first, under a policy that feeds its scan back."""
    environment.reset_all()
    kept = copy.deepcopy(environment.state_dict())
    window = environment.rollout(8, 1e9)
    gain = torch.randn(2, environment.pipeline.size, generator=torch.Generator().manual_seed(1)) * 0.01

    def driven(change: float = 0.0, row: int = 0) -> torch.Tensor:
        environment.load_state_dict(copy.deepcopy(kept))
        window.begin()
        for t in range(8):
            action = window.at(window.action, t)
            action.copy_(gain @ window.at(window.observation, t))
            if t == 0:
                action[row] += change
            window.advance(t)
        return window.at_all(window.reward)[0].sum(dim=0)

    driven()
    window.at_all(window.seed).fill_(1.0)
    window.begin_reverse()
    for t in reversed(range(8)):
        window.reverse(t)
        window.at(window.observation_gradient, t).copy_(gain.T @ window.at(window.action_gradient, t))
    found = window.at(window.action_gradient, 0).clone()
    for row in range(2):
        step = 2e-3
        wanted = (driven(step, row) - driven(-step, row)) / (2.0 * step)
        error = (found[row] - wanted).abs() / (wanted.abs() + 0.05)
        # a ray that passes the edge of a wall jumps, which no derivative says
        assert float(error.median()) < 0.05 and float(error.quantile(0.8)) < 0.4, (row, error)


def test_ranges_change_with_the_pose_as_they_are_measured_to(environment: RacingEnvironment) -> None:
    from rlstack.fused import Kernel, zeros
    from rlstack.sim.batch_wheeled_base.layout import STATE_WIDTH

    env: Any = environment
    env.reset_all()
    env.observe()
    state, before, slopes = env.state.clone(), env.ranges.clone(), env.slopes.clone()
    rays = len(env.task_step.rays)
    shifted = Kernel(
        lambda ranges, slopes, state, pose: {"out": env.task_step._shifted(ranges, slopes, state, pose)},
        {"ranges": rays, "slopes": rays, "state": STATE_WIDTH, "pose": 4},
    )
    out = torch.from_numpy(zeros(rays, env.count))
    env.state[STATE["position"]] += torch.tensor([[0.004], [-0.003]])
    z, w = state[STATE["turn"]]
    env.state[STATE["turn"]] = torch.stack([z + 0.002 * w, w - 0.002 * z])
    env._launch()[0]()
    given = {"ranges": before, "slopes": slopes, "state": env.state, "pose": state[:4].contiguous()}
    shifted({**given, "out": out})
    moved, told = env.ranges - before, out - before
    close = (moved - told).abs() < 0.1 * moved.abs() + 5e-4
    assert float(close.float().mean()) > 0.97
    assert float(close[before > 4.0].float().mean()) > 0.85, "what lies far ahead too"
    assert float(told[moved.abs() > 1e-4].abs().mean()) > 1e-3
