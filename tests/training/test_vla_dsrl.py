"""DSRL: a frozen flow is steered by its noise, learned, resumed, refused for other heads, and in one policy file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.interfaces.instruction import encoded
from rlstack.policies import load_policy, write_policy
from rlstack.training.algorithms.vla_dsrl import VLADSRL, VLADSRLSettings
from rlstack.training.export import TOLERANCE, PolicyGraph, TorchPolicy, compare, make_contract, to_onnx
from rlstack.training.language.flow import Flow
from rlstack.training.language.steering import SteeredActor, seen_by_steering, steered
from tests.training.test_vla import PANDA, SMALL, TASK, environment, few_starts, pretrained

__all__ = ["few_starts"]

DSRL = VLADSRLSettings(network=SMALL, hidden=(16,), rollout=2, warm_up=8, batch=8, reach=2.0)


@pytest.fixture
def run(tmp_path: Path) -> str:
    (tmp_path / "supervised").mkdir()
    return pretrained(tmp_path / "supervised", "flow")


def test_learns_which_noise_to_choose_and_resumes(run: str, tmp_path: Path) -> None:
    one = VLADSRL(replace(DSRL, pretrained=run), environment())
    one.open(tmp_path)
    frozen = [weight.clone() for weight in one.policy.parameters()]
    steering = [weight.clone() for weight in one.learner.actor.parameters()]
    assert one.iterate(0.0).scalars.keys() == {"train/success", "train/episodes"}  # the flow's own noise at first
    torch.testing.assert_close(steering, [*one.learner.actor.parameters()])
    logged = one.iterate(0.1).logged()
    assert logged["train/episodes"] > 0.0 and np.isfinite(list(logged.values())).all()
    assert "loss/critic" in logged and "loss/temperature" in logged
    torch.testing.assert_close(frozen, [*one.policy.parameters()])
    assert not torch.equal(steering[0], next(one.learner.actor.parameters()))
    state = one.state_dict()
    one._buffer.close()  # type: ignore[union-attr]
    other = VLADSRL(replace(DSRL, pretrained="gone"), environment())
    other.load_state_dict(state)
    other.open(tmp_path)
    assert len(other._sampler) == len(one._sampler) == 16  # type: ignore[arg-type]
    torch.testing.assert_close(other.actor().state_dict(), one.actor().state_dict())
    assert np.isfinite(list(other.iterate(0.2).logged().values())).all()


@pytest.mark.parametrize("each_step", [False, True])
def test_policy_and_its_file_are_the_flow_with_the_chosen_noise(each_step: bool, run: str, tmp_path: Path) -> None:
    one = VLADSRL(replace(DSRL, pretrained=run, each_step=each_step), environment(1))
    one.open(tmp_path)
    with torch.no_grad():  # untrained networks hardly depend on what they see
        for weight in [*one.policy.parameters(), *one.learner.actor.parameters()]:
            weight.mul_(1.5)
    actor = one.actor()
    assert isinstance(actor, SteeredActor)
    observation = one.environment.observe()[0]
    seen = one.policy.seen(observation)
    features = one.policy.features(seen)
    chosen = actor.steering(seen_by_steering(one.policy, seen, features), {})[0]
    assert chosen.shape == (1, 12 if each_step else 3)
    noise = 2.0 * (chosen.reshape(1, 4, 3) if each_step else chosen[:, None].repeat(1, 4, 1))
    assert isinstance(one.policy.head, Flow)
    planned = actor.plan(observation)
    torch.testing.assert_close(planned, one.policy.head(features, noise))
    torch.testing.assert_close(planned, steered(one.policy, features, chosen, 2.0, each_step))
    assert not torch.allclose(planned, one.policy.head(features), atol=1e-3)
    if each_step:
        return
    graph = PolicyGraph(TASK.pipeline(PANDA), actor, TASK.inputs)
    contract = make_contract("words", "table_push", TASK, PANDA, graph, training={}, evaluation={})
    file = tmp_path / "policy.onnx"
    write_policy(to_onnx(graph, contract), contract, file)
    assert compare(graph, contract, file, PANDA, observations=50) < TOLERANCE
    plain = PolicyGraph(TASK.pipeline(PANDA), one.policy, TASK.inputs)
    before = make_contract("words", "table_push", TASK, PANDA, plain, training={}, evaluation={})
    steered_file = load_policy(file, robot=PANDA)
    assert before.noise == (4, 3) and replace(steered_file.contract, sha256="") == replace(before, noise=())
    assert compare(plain, replace(before, noise=()), file, PANDA, observations=10) > 1e-4, "noise changes commands"

    # whoever chooses the same noise for the frozen file's input steers it likewise
    frozen_file = tmp_path / "frozen.onnx"
    write_policy(to_onnx(plain, before), before, frozen_file)
    frozen, given, rest = load_policy(frozen_file, robot=PANDA), [], [drive.rest for drive in PANDA.drives]
    inputs = {"joint_position": np.array(rest), "joint_velocity": np.zeros(len(rest)), "scene_image_age": np.zeros(1)}
    inputs |= {"instruction": encoded("push the red cube to the left"), "scene_image": np.full((16, 16, 3), 90.0)}
    actor.steering.register_forward_hook(lambda *call: given.append(call[2][0]))
    TorchPolicy(graph, contract, PANDA).step({name: value[None] for name, value in inputs.items()})
    chosen_noise = 2.0 * given[0].numpy()[0] * np.ones((4, 1))
    command = frozen.step({**inputs, "noise": chosen_noise})["joint_target"]
    assert command == pytest.approx(steered_file.step(inputs)["joint_target"], abs=1e-5)
    frozen.reset()
    assert not np.allclose(command, frozen.step(inputs)["joint_target"], atol=1e-4)


def test_refuses_heads_without_noise(run: str) -> None:
    for head in ("tokens", "regression"):
        settings: Any = replace(DSRL, head=head, pretrained=run)
        with pytest.raises(UserError, match=f"head: {head} is not allowed with vla_dsrl.* whose head is flow"):
            VLADSRL(settings, environment(1))
