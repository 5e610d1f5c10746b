"""A window of steps and the way back through it, against an eager flight in double precision and its differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack.fused.memory_layout import zeros
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE
from rlstack.tasks.catalog.quadrotor_foundation import FoundationTask, Observation
from rlstack.tasks.catalog.quadrotor_tracking import TrackingTask
from rlstack.tasks.core.rollout import DifferentiableRollout, shortened
from rlstack.tasks.quadrotor import environment
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.tasks.quadrotor.family import Family
from rlstack.tasks.quadrotor.task import Noise
from tests.support.eager import Start
from tests.support.learning import small_task

STEPS, ROBOTS = 7, 5
NO_BOUND = 1e9
LATE = small_task(episode_s=5.0)
TASKS: dict[str, Any] = {
    "hover, late": LATE,
    "hover": replace(LATE, randomisation=replace(LATE.randomisation, delay_s=(0.0, 0.0))),
    "tracking": TrackingTask(),
    "foundation": FoundationTask(),
    "foundation, late": FoundationTask(vehicles=Family(delay_s=(0.0, 0.035))),
    "foundation, integral": FoundationTask(observation=Observation(integral_per_s=1.0)),
}
every_task = pytest.mark.parametrize("kind", list(TASKS))


@pytest.fixture(autouse=True)
def _small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "POOL_SIZE", 256)
    monkeypatch.setattr(environment, "PATH_POOL_SIZE", 20)


def made(task: Any, steps: int = STEPS, steepest: float = NO_BOUND, robots: int = ROBOTS) -> DifferentiableRollout:
    robot = task.reference(load_quadrotor("crazyflie"))
    env = QuadrotorEnvironment(task, robot, task.pipeline(robot), robots, seed=3)
    if env.task_step.window:
        env.path_step.random_(0, 50)
    window = env.rollout(steps, steepest)
    window.begin()
    return window


def actions_for(window: DifferentiableRollout, seed: int = 0) -> Tensor:
    """Return (T, N, k) inside the range: at its ends a derivative has two sides."""
    shape = (window.steps, window.count, window.action.shape[0])
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 1.2 - 0.3


def fly(window: DifferentiableRollout, actions: Tensor) -> None:
    for t, action in enumerate(actions):
        window.at(window.action, t).copy_(action.T)
        window.advance(t)


@every_task
def test_a_window_is_the_flight_that_an_eager_evaluation_makes(kind: str) -> None:
    window = made(TASKS[kind])
    actions, start = actions_for(window), Start(window)
    fly(window, actions)
    expected = start.fly(lambda t, _: actions[t].double())
    assert not np.any(expected["lost"])
    for t in range(STEPS):
        np.testing.assert_allclose(window.at(window.observation, t).T, expected["observation"][t], rtol=1e-4, atol=3e-4)
        np.testing.assert_allclose(
            window.at(window.command, window._past + t), expected["command"][t], rtol=1e-6, atol=1e-3
        )
        np.testing.assert_allclose(window.at(window.reward, t)[0], expected["reward"][t], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(window.at(window.terms, t), expected["terms"][t], rtol=1e-4, atol=1e-5)
        for name, rows in STATE.items():
            found, right = window.at(window.state, t + 1)[rows], expected["state"][t + 1][rows]
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=2e-5 * max(1.0, np.abs(right).max()), err_msg=name)
    assert (window.at(window.lost, 0) == 0.0).all()


@every_task
def test_gradients_by_actions_are_those_of_finite_differences(kind: str) -> None:
    """Of rewards and observations together, each robot and step with a weight of its own."""
    window = made(TASKS[kind])
    actions = actions_for(window)
    count, k = window.count, actions.shape[2]
    moved = STEPS * k * 2  # each action of each step a little more, and a little less
    start = Start(window, copies=moved)
    fly(window, actions)
    rng = torch.Generator().manual_seed(1)
    seed = torch.randn(STEPS, count, generator=rng)
    weight = 0.1 * torch.randn(STEPS, window.observation.shape[0], count, generator=rng)
    window.at_all(window.seed)[0].copy_(seed)
    window.begin_reverse()
    for t in reversed(range(STEPS)):
        window.reverse(t)
        window.at(window.observation_gradient, t).copy_(weight[t])

    change = 1e-6
    wide = actions.double().repeat_interleave(moved, dim=1).view(STEPS, count, STEPS, k, 2, k)
    for t in range(STEPS):
        for j in range(k):
            wide[t, :, t, j, 0, j] += change
            wide[t, :, t, j, 1, j] -= change
    flight = start.fly(lambda t, _: wide[t].reshape(-1, k))
    value = np.zeros((count, STEPS, k, 2))
    for t in range(STEPS):
        value += flight["reward"][t].reshape(value.shape) * seed[t].double().numpy().reshape(count, 1, 1, 1)
        seen = flight["observation"][t].numpy().reshape(*value.shape, -1)
        # what is seen before step 0 does not depend on any action
        value += np.einsum("rtjsc,cr->rtjs", seen, weight[t].double().numpy())
    expected = ((value[..., 0] - value[..., 1]) / (2.0 * change)).transpose(1, 2, 0)  # (T, k, N)
    found = torch.stack([window.at(window.action_gradient, t) for t in range(STEPS)]).numpy()
    for robot in range(count):
        size = np.abs(expected[:, :, robot]).max()
        assert size > 0.0
        np.testing.assert_allclose(found[:, :, robot], expected[:, :, robot], rtol=1e-3, atol=5e-4 * size)


def test_late_robots_feel_actions_later_forward_and_back() -> None:
    window = made(TASKS["hover, late"], robots=3)
    delays = torch.tensor([0.0, 0.01, 0.02])
    env = window.environment
    env.parameters[PARAMETERS["delay"]] = delays
    window.begin()
    held = env.state[STATE["rotor_speed"]].clone()
    fly(window, torch.ones(STEPS, 3, 4))
    speeds = [window.at(window.state, t)[STATE["rotor_speed"]] for t in range(STEPS + 1)]
    for robot, late in enumerate((0, 1, 2)):
        for t in range(late + 1):
            torch.testing.assert_close(speeds[t][:, robot], held[:, robot])
        assert (speeds[late + 1][:, robot] > held[:, robot] + 10.0).all()
    # back: the last reward is for the last state; what is commanded too late for it cannot have lifted the robot.
    # Commands that act at once act inside their own step, and are no past command of any other.
    window.seed.zero_()
    window.at(window.seed, STEPS - 1).fill_(1.0)
    window.begin_reverse()
    felt = []
    for t in reversed(range(STEPS)):
        window.reverse(t)
        felt.insert(0, window.at(window._command_gradient, window._past + t).abs().amax(dim=0) > 0.0)
        window.observation_gradient[:, t] = 0.0
    for robot, late in enumerate((0, 1, 2)):
        assert [bool(row[robot]) for row in felt] == [0 < late < STEPS - t for t in range(STEPS)]


def test_windows_follow_each_other_as_one() -> None:
    quiet = Noise(position_m=0.0, orientation_rad=0.0, linear_velocity_m_s=0.0, angular_velocity_rad_s=0.0)
    for task in (replace(LATE, noise=quiet), replace(TrackingTask(), noise=quiet)):
        whole = made(task, steps=10)
        halves = made(task, steps=5)
        actions = actions_for(whole)
        begun = whole.environment.age.clone(), whole.environment.path_step.clone()
        for name in ("path_step", "pick"):
            setattr(halves.environment, name, getattr(whole.environment, name).clone())
        halves.begin()
        whole.begin()
        fly(whole, actions)
        whole.end()
        for half in (actions[:5], actions[5:]):
            halves.begin()
            fly(halves, half)
            halves.end()
        one, other = whole.environment, halves.environment
        torch.testing.assert_close(one.state, other.state, rtol=0, atol=0)
        torch.testing.assert_close(one.memory, other.memory, rtol=0, atol=0)
        assert len(one.past) == len(other.past)
        for mine, theirs in zip(one.past, other.past):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
        assert (one.age == begun[0] + 10).all() and (other.age == one.age).all()
        assert not one.task_step.window or (one.path_step == begun[1] + 10).all()


def test_a_window_and_steps_of_the_environment_are_the_same_flight() -> None:
    quiet = Noise(position_m=0.0, orientation_rad=0.0, linear_velocity_m_s=0.0, angular_velocity_rad_s=0.0)
    window = made(replace(LATE, noise=quiet))
    twin = made(replace(LATE, noise=quiet)).environment
    actions = actions_for(window)
    actor, critic = twin.observe()
    torch.testing.assert_close(window.at(window.observation, 0).T, actor)
    twin.age[:] = 0
    fly(window, actions)
    for t, action in enumerate(actions):
        result = twin.step(action)
        torch.testing.assert_close(window.at(window.reward, t)[0], result.reward)
        if t + 1 < STEPS:
            torch.testing.assert_close(window.at(window.observation, t + 1).T, result.actor, rtol=1e-4, atol=1e-4)
    assert critic.shape[1] > actor.shape[1]


def test_who_is_lost_waits_at_rest_and_has_no_more_gradients() -> None:
    window = made(LATE)
    env = window.environment
    env.state[STATE["position"].start, 2] = 5.0
    env.state[STATE["angular_velocity"].start, 3] = float("nan")
    window.begin()
    fly(window, actions_for(window))
    assert window.at(window.lost, 0)[0].tolist() == [0.0, 0.0, 1.0, 1.0, 0.0]
    assert torch.isfinite(window.at_all(window.state)[:, 1:]).all()
    assert torch.isfinite(window.at_all(window.reward)).all()
    window.at_all(window.seed).fill_(1.0)
    window.begin_reverse()
    for t in reversed(range(STEPS)):
        window.reverse(t)
        window.at(window.observation_gradient, t).fill_(0.1)
    others = [0, 1, 4]
    gradient = window.at_all(window.action_gradient)
    assert torch.isfinite(gradient[:, :, [2, *others]]).all()
    assert (gradient[:, :, others].abs().sum(dim=(0, 1)) > 0.0).all()


def test_what_passes_from_step_to_step_is_shortened_to_the_bound() -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "state": rng.normal(size=(18, 40)).astype(np.float32),
        "hidden": rng.normal(size=(5, 40)).astype(np.float32),
    }
    arrays["state"][:, :10] *= 1e-3
    arrays["hidden"][:, :10] *= 1e-3
    arrays["state"][:, 39] = arrays["hidden"][:, 39] = 0.0
    made_ = {f"shorter {name}": zeros(len(a), 40) for name, a in arrays.items()}
    bound = np.full((1, 40), 0.7, np.float32)
    shortened({name: len(a) for name, a in arrays.items()}, "cpu")({**arrays, "bound": bound, **made_})
    length = np.sqrt(sum((a**2).sum(axis=0) for a in arrays.values()))
    share = np.minimum(0.7 / np.maximum(length, 1e-12), 1.0)
    assert (share[:10] == 1.0).all() and (share[10:39] < 1.0).all()
    for name, array in arrays.items():
        np.testing.assert_allclose(made_[f"shorter {name}"], array * share, rtol=1e-5, atol=1e-7)


def test_a_bound_shortens_what_goes_back_and_keeps_the_rest_of_the_way() -> None:
    """With a bound far below them, no robot's gradient before the last step is longer than bound times what one is."""
    lengths = {}
    for steepest in (NO_BOUND, 1e-3):
        window = made(LATE, steepest=steepest)
        fly(window, actions_for(window))
        window.at_all(window.seed).fill_(-2.0)
        window.begin_reverse()
        carried = []
        for t in reversed(range(STEPS)):
            window.reverse(t)
            window.at(window.observation_gradient, t).zero_()
            arrays = window._state_gradient, window._memory_gradient
            carried.append(sum(window.at(array, t % 2).square().sum(dim=0) for array in arrays).sqrt())
        lengths[steepest] = torch.stack(carried)
    assert (lengths[NO_BOUND] > 2.1e-3).all()
    torch.testing.assert_close(lengths[1e-3], torch.full_like(lengths[1e-3], 2e-3), rtol=1e-4, atol=0)


def test_what_is_not_finite_on_the_way_back_is_named() -> None:
    window = made(LATE)
    for array in (window.action_gradient, window.observation_gradient):
        array.zero_()
    assert window.not_finite() == "the network's weights"
    column = next(t.start for t in window.environment.pipeline.table() if t.name == "angular_velocity")
    window.at(window.observation_gradient, 4)[column + 1, 2] = float("nan")
    window.at(window.action_gradient, 3)[0, 2] = float("inf")  # broke after, so it is not the cause
    assert window.not_finite() == "the observation term 'angular_velocity' at step 5 of the rollout's 7"
    window.at(window.action_gradient, 4)[1, 0] = float("inf")
    assert window.not_finite() == "the action at step 5 of the rollout's 7"
