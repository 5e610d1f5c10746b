"""Of :mod:`rlstack.training.networks` and :mod:`rlstack.training.autograd_bptt`."""

from __future__ import annotations

import pytest
import torch

from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.tasks.catalog.base_crowd import CrowdReward, CrowdTask, PedestrianSettings
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.wheeled_base.task import BaseNoise
from rlstack.training.algorithms.apg import APG, APGSettings
from rlstack.training.export import PolicyGraph, TorchPolicy, export_policy, make_contract
from rlstack.training.networks import AttentionNetwork, Members, members_of

STILL = BaseNoise(position_m=0.0, heading_rad=0.0, linear_velocity_m_s=0.0, angular_velocity_rad_s=0.0)
TASK = CrowdTask(
    scene="circle_crossing",
    rate_hz=4.0,
    episode_s=25.0,
    arrival_m=0.3,
    scenes=64,
    through_m=0.7,
    noise=STILL,
    people=PedestrianSettings(walking=(5, 5), standing=(0, 0), radius_m=0.3, speed_m_s=1.0),
    reward=CrowdReward(progress=0.0, distance=-0.125, away=-0.15, people=-0.6, people_margin_m=0.15, lost=0.0),
)
ROBOT = load_robot("crowdnav_robot")


def learner(memory: bool = False) -> APG:
    torch.manual_seed(0)
    environment = TASK.environment(ROBOT, TASK.pipeline(ROBOT), 32, "cpu", 0)
    settings = APGSettings(
        network="attention", hidden=(16,), member_width=12, window=8, memory=memory, gru_width=6, steepest=1e6
    )
    return APG(settings, environment)


def test_the_order_of_members_does_not_matter_and_who_is_not_there_does_not_count() -> None:
    torch.manual_seed(1)
    network = AttentionNetwork(2 + 3 * 4, 2, Members(2, 3, 4), 8, (8,))
    seen = torch.randn(5, 14)
    seen[:, 5::4] = 1.0
    seen[:, 13] = 0.0
    turned = torch.cat([seen[:, :2], seen[:, 6:10], seen[:, 2:6], seen[:, 10:]], dim=1)
    torch.testing.assert_close(network(seen, {})[0], network(turned, {})[0])
    other = seen.clone()
    other[:, 10:13] = 7.0
    torch.testing.assert_close(network(seen, {})[0], network(other, {})[0])
    other[:, 13] = 1.0
    assert not torch.allclose(network(seen, {})[0], network(other, {})[0])


def test_a_task_without_a_set_is_refused() -> None:
    with pytest.raises(ValueError, match="has one set"):
        members_of(Pipeline([], "twist", [-1.0], [1.0]))


@pytest.mark.parametrize("memory", [False, True])
def test_the_gradient_through_a_window_is_that_of_its_reward(memory: bool) -> None:
    apg = learner(memory)
    window, tape, environment = apg.window, apg.tape, apg.environment
    start = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in environment.state_dict().items()}
    people = {k: v.clone() for k, v in start["movers"].items()}

    @torch.no_grad()
    def earned() -> float:
        environment.load_state_dict({**start, "movers": people})
        window.begin()
        tape.begin()
        for t in range(window.steps):
            tape.forward(t)
            window.advance(t)
        return float(window.at_all(window.reward).double().sum())

    earned()
    with torch.no_grad():
        window.at_all(window.seed).fill_(1.0)
        window.begin_reverse()
        tape.begin_reverse()
        for t in reversed(range(window.steps)):
            window.reverse(t)
            tape.reverse(t)
    for parameter in apg.policy.parameters():
        gradient = parameter.grad
        assert gradient is not None
        length = float(gradient.norm())
        if length < 1e-3:
            continue
        found = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                parameter.add_(gradient, alpha=sign * 2e-3 / length)
            found.append(earned())
            with torch.no_grad():
                parameter.add_(gradient, alpha=-sign * 2e-3 / length)
        assert (found[0] - found[1]) / 4e-3 == pytest.approx(length, rel=0.05, abs=3e-4)


def test_it_learns_resumes_and_becomes_a_policy_file_for_any_number_of_people(tmp_path) -> None:
    apg = learner(memory=True)
    before = apg.iterate(0.0).logged()["train/reward_per_s"]
    for _ in range(8):
        after = apg.iterate(0.0).logged()["train/reward_per_s"]
    assert after > before
    other = learner(memory=True)
    other.load_state_dict(apg.state_dict())
    torch.manual_seed(0)
    expected = apg.iterate(0.0).logged()
    torch.manual_seed(0)
    assert other.iterate(0.0).logged() == pytest.approx(expected)

    graph = PolicyGraph(TASK.pipeline(ROBOT), apg.actor(), TASK.inputs)
    contract = make_contract("crowd", "base_crowd", TASK, ROBOT, graph)
    export_policy(graph, contract, ROBOT, tmp_path / "policy.onnx")
    policy, twin = load_policy(tmp_path / "policy.onnx", robot=ROBOT), TorchPolicy(graph, contract, ROBOT)
    for people in (1, 5, 9):
        policy.reset(3)
        twin.reset(3)
        generator = torch.Generator().manual_seed(people)
        inputs = {
            port.name: torch.randn(3, *port.sized({"people": people}), generator=generator).numpy()
            for port in policy.contract.inputs
        }
        inputs["orientation"] /= (inputs["orientation"] ** 2).sum(axis=1, keepdims=True) ** 0.5
        assert policy.step(inputs)["planar_twist"] == pytest.approx(twin.step(inputs)["planar_twist"], abs=1e-5)
        inputs["people_position"][:, 0, :2] = inputs["position"][:, :2] + [[0.0, 0.0], [1e-3, 0.0], [0.0, -5e-3]]
        inputs["goal_position"][0] = inputs["position"][0]
        assert policy.step(inputs)["planar_twist"] == pytest.approx(twin.step(inputs)["planar_twist"], abs=1e-5)


def test_planar_twist_needs_a_holonomic_base() -> None:
    graph = PolicyGraph(TASK.pipeline(ROBOT), learner().actor(), TASK.inputs)
    with pytest.raises((UserError, ValueError)):
        make_contract("crowd", "base_crowd", TASK, load_robot("turtlebot3_burger"), graph)
