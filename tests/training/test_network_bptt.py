"""The tape: a network's forward and backward against torch's, and the whole gradient against finite differences."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.layout import STATE
from rlstack.tasks.catalog.quadrotor_foundation import FoundationTask
from rlstack.tasks.catalog.quadrotor_tracking import TrackingTask
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.training.network_bptt import NetworkBPTT
from rlstack.training.networks import Network
from tests.support.eager import Start
from tests.support.learning import small_task

STEPS, ROBOTS = 8, 5
NO_BOUND = 1e9
TASKS: dict[str, Any] = {"hover, late": small_task(), "tracking": TrackingTask(), "foundation": FoundationTask()}
NETWORKS = {
    "relu": ((12, 10), 0, "relu"),
    "tanh": ((12,), 0, "tanh"),
    "gru": ((9,), 6, "tanh"),
    "gru behind relu": ((9, 7), 5, "relu"),
}
HALF_RATE = replace(small_task(), randomisation=replace(small_task().randomisation, half_rate_share=0.5))
every_network = pytest.mark.parametrize("kind", list(NETWORKS))


def taped(kind: str, task: Any, steepest: float = NO_BOUND, seed: int = 0) -> NetworkBPTT:
    torch.manual_seed(seed)
    robot = task.reference(load_quadrotor("crazyflie"))
    env = QuadrotorEnvironment(task, robot, task.pipeline(robot), ROBOTS, seed=3)
    hidden, width, activation = NETWORKS[kind]
    network = Network(env.pipeline.size, 4, hidden, width, activation, 0.2)
    with torch.no_grad():  # far from where they begin, so that every weight matters
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    network.normalise_by(torch.randn(50, env.pipeline.size) * torch.rand(env.pipeline.size) * 4.0 + 0.3)
    network.requires_grad_(True)
    tape = NetworkBPTT(network, env.rollout(STEPS, steepest))
    if width:
        tape.hidden[:, 0, :ROBOTS].uniform_(-0.5, 0.5)
    return tape


def fly(tape: NetworkBPTT) -> None:
    with torch.no_grad():
        tape.window.begin()
        tape.begin()
        for t in range(STEPS):
            tape.forward(t)
            tape.window.advance(t)


def hidden_of(tape: NetworkBPTT, copies: int = 1) -> dict[str, Tensor]:
    if not tape.network.gru_width:
        return {}
    return {"hidden": tape.hidden[:, 0, :ROBOTS].T.double().repeat_interleave(copies, dim=0)}


@every_network
def test_the_tape_flies_what_the_network_says(kind: str) -> None:
    tape = taped(kind, small_task())
    fly(tape)
    network, window = copy.deepcopy(tape.network).double(), tape.window
    memory = hidden_of(tape)
    with torch.no_grad():
        for t in range(STEPS):
            wanted, memory = network(window.at(window.observation, t).T.double(), memory)
            torch.testing.assert_close(
                window.at(window.action, t).T.double(), wanted.clamp(-1.0, 1.0), rtol=1e-4, atol=1e-5
            )
            if network.gru_width:
                found = window.at(tape.hidden, t + 1).T.double()
                torch.testing.assert_close(found, memory["hidden"], rtol=1e-4, atol=1e-5)


@every_network
def test_the_networks_part_of_the_gradient_is_autograds(kind: str) -> None:
    """Observations as they are, a weight for every action: gradients of all weights and of every observation."""
    tape = taped(kind, small_task())
    fly(tape)
    window = tape.window
    weight = torch.randn(STEPS, 4, ROBOTS)
    window.bound.fill_(NO_BOUND)
    with torch.no_grad():
        tape.begin_reverse()
        for t in reversed(range(STEPS)):
            window.at(window.action_gradient, t).copy_(weight[t])
            tape.reverse(t)
        tape.weight_gradients()

    network, memory = copy.deepcopy(tape.network).double(), hidden_of(tape)
    network.zero_grad()
    seen = [window.at(window.observation, t).T.double().clone().requires_grad_(True) for t in range(STEPS)]
    total = torch.zeros((), dtype=torch.double)
    for t in range(STEPS):
        action, memory = network(seen[t], memory)
        assert (action.abs() < 1.0).all()
        total = total + (action.T * weight[t]).sum()
    total.backward()
    for (name, mine), right in zip(tape.network.named_parameters(), network.parameters()):
        assert mine.grad is not None and right.grad is not None
        size = float(right.grad.abs().max())
        torch.testing.assert_close(mine.grad.double(), right.grad, rtol=1e-3, atol=1e-4 * size, msg=name)
    for t in range(STEPS):
        grad = seen[t].grad
        assert grad is not None
        found = window.at(window.observation_gradient, t).T.double()
        torch.testing.assert_close(found, grad, rtol=1e-3, atol=1e-4 * float(grad.abs().max()))


def test_a_recurrent_layer_rests_where_the_policy_is_not_called() -> None:
    """As a graph that is called in every second period only: the tape's memory and gradients against autograd's."""
    tape = taped("gru", HALF_RATE)
    window, env = tape.window, tape.window.environment
    env.hold[0] = torch.tensor([1.0, 2.0, 2.0, 1.0, 2.0])
    env.state[STATE["elapsed"]] = 0.01 * torch.tensor([3.0, 3.0, 4.0, 4.0, 5.0])
    fly(tape)
    called = np.array([[1, 0, 1, 1, 0], [1, 1, 0, 1, 1]] * (STEPS // 2), dtype=bool)
    weight = torch.randn(STEPS, 4, ROBOTS) * torch.from_numpy(called)[:, None]
    window.bound.fill_(NO_BOUND)
    with torch.no_grad():
        tape.begin_reverse()
        for t in reversed(range(STEPS)):
            window.at(window.action_gradient, t).copy_(weight[t])
            tape.reverse(t)
        tape.weight_gradients()

    network, memory = copy.deepcopy(tape.network).double(), hidden_of(tape)["hidden"]
    network.zero_grad()
    total = torch.zeros((), dtype=torch.double)
    for t in range(STEPS):
        action, after = network(window.at(window.observation, t).T.double(), {"hidden": memory})
        memory = torch.where(torch.from_numpy(called[t])[:, None], after["hidden"], memory)
        torch.testing.assert_close(window.at(tape.hidden, t + 1).T.double(), memory, rtol=1e-4, atol=1e-5)
        total = total + (action.T * weight[t]).sum()
    total.backward()
    for (name, mine), right in zip(tape.network.named_parameters(), network.parameters()):
        assert mine.grad is not None and right.grad is not None
        size = float(right.grad.abs().max())
        torch.testing.assert_close(mine.grad.double(), right.grad, rtol=1e-3, atol=1e-4 * size, msg=name)


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("kind", ["relu", "tanh", "gru"])
def test_the_gradient_of_a_windows_reward_is_that_of_finite_differences(kind: str, task: str) -> None:
    """Through network, observation, late commands, dynamics and reward; weights moved along random directions."""
    tape = taped(kind, TASKS[task])
    fly(tape)
    window = tape.window
    seed = torch.randn(STEPS, ROBOTS)
    window.at_all(window.seed)[0].copy_(seed)
    with torch.no_grad():
        window.begin_reverse()
        tape.begin_reverse()
        for t in reversed(range(STEPS)):
            window.reverse(t)
            tape.reverse(t)
        tape.weight_gradients()
    assert (window.at_all(tape.wanted).abs() < 1.0).all() and (window.at_all(window.lost) == 0.0).all()

    start, parameters = Start(window), list(tape.network.parameters())

    def earned(direction: list[Tensor], change: float) -> float:
        network = copy.deepcopy(tape.network).double()
        memory = hidden_of(tape)
        with torch.no_grad():
            for parameter, along in zip(network.parameters(), direction):
                parameter.add_(along, alpha=change)

            def choose(t: int, observation: Tensor) -> Tensor:
                nonlocal memory
                action, memory = network(observation, memory)
                return action

            rewards = start.fly(choose)["reward"]
        return float((np.stack(rewards) * seed.double().numpy()).sum())

    found, expected = [], []
    generator = torch.Generator().manual_seed(7)
    # all weights together, then each layer's on its own
    chosen = [range(len(parameters))] * 3 + [range(k, k + 1) for k in range(len(parameters))]
    for moved in chosen:
        direction = [
            torch.randn(p.shape, generator=generator).double() * (1.0 if k in moved else 0.0)
            for k, p in enumerate(parameters)
        ]
        grads = [p.grad.double() for p in parameters if p.grad is not None]
        found.append(sum(float((g * d).sum()) for g, d in zip(grads, direction)))
        expected.append((earned(direction, 1e-7) - earned(direction, -1e-7)) / 2e-7)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=5e-4 * np.abs(expected).max())


def test_an_action_beyond_its_range_is_only_pulled_back_and_what_a_robot_pulls_is_bounded() -> None:
    tape = taped("tanh", small_task())
    window = tape.window
    wanted = torch.tensor([[1.5, 1.5, -2.0, -2.0, 0.5]] * 4)
    gradient = torch.tensor([[3.0, -3.0, 3.0, -3.0, -3.0]] * 4)  # of what is minimised: a positive one pulls down
    window.at(tape.wanted, 2).copy_(wanted)
    window.at(window.action_gradient, 2).copy_(gradient)
    window.bound.fill_(1e9)
    tape.begin()
    tape.reverse(2)
    expected = torch.tensor([[3.0, 0.0, 0.0, -3.0, -3.0]] * 4)
    torch.testing.assert_close(window.at(tape.pull, 2), expected)
    window.bound.fill_(1.5)
    tape.reverse(2)
    torch.testing.assert_close(window.at(tape.pull, 2), expected / 4.0)  # of length 6 each
