"""SmolVLA's checkpoints: LeRobot's own answers, what is refused, adapters, reinforcement and the policy file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.interfaces.instruction import encoded
from rlstack.policies import write_policy
from rlstack.policies.limits import ORDINARY
from rlstack.training.algorithms.vla_ppo import VLAPPO, VLAPPOSettings
from rlstack.training.algorithms.vla_sft import VLASFT, VLASFTSettings
from rlstack.training.export import TOLERANCE, PolicyGraph, compare, make_contract, to_onnx
from rlstack.training.language.actor import LanguageActor, Layout, PolicySettings
from rlstack.training.language.checkpoints.opening import CheckpointSettings
from rlstack.training.language.supervised import Lesson
from rlstack.training.run_folder import save_checkpoint
from tests.support.write_smolvla import write_smolvla
from tests.training.test_vla import PANDA, TASK, environment

pytest.importorskip("tokenizers")

WORDS = ("block", "left", "push", "red", "the", "to")
LAYOUT = Layout(7, (1, 16, 12, 3), 128)

ANSWER = [
    [1.26143, -0.30062, 1.63412],
    [-1.85231, 0.66672, 1.01361],
    [-0.67324, -0.77765, -0.38278],
    [-0.44737, 0.55832, -1.68596],
    [-0.85034, -0.42368, -0.12499],
    [0.06516, -0.07767, -2.48250],
]
"""What LeRobot 0.6.1 with transformers 5.5.4 plans with these weights, in the action's unit."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("smolvla")
    write_smolvla(path, 7, ("scene",), 3)
    return path


def settings(folder: Path, **given: Any) -> PolicySettings:
    of_checkpoint = {"folder": str(folder), "trained": "expert", "statistics": "checkpoint", **given}
    return PolicySettings(checkpoint=CheckpointSettings(**of_checkpoint), chunk=6)


def actor(folder: Path, layout: Layout = LAYOUT, actions: int = 3, **given: Any) -> LanguageActor:
    return LanguageActor(layout, WORDS, actions, settings(folder, **given))


def observed() -> tuple[Tensor, Tensor]:
    """Return an observation (1, columns) and noise (1, 6, 8)."""
    rng = np.random.default_rng(2)
    image, state, noise = rng.integers(0, 256, (16, 12, 3)), rng.normal(0, 1, 7), rng.normal(0, 1, (6, 8))
    row = np.concatenate([state, encoded("push the red block to the left"), image.flatten()])
    return torch.from_numpy(row)[None].float(), torch.from_numpy(noise)[None].float()


@pytest.mark.parametrize(("kept", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.1), ("int8", 0.2)])
def test_plans_what_lerobot_plans(folder: Path, kept: Any, tolerance: float) -> None:
    one, (seen, noise) = actor(folder, frozen=kept), observed()
    with torch.no_grad():
        planned = one.head(one.features(one.seen(seen)), noise)  # type: ignore[call-arg]
    assert planned[0].numpy() == pytest.approx(np.array(ANSWER), abs=tolerance)
    # a shorter chunk is the beginning of a longer one: the expert is causal
    short = LanguageActor(LAYOUT, WORDS, 3, replace(settings(folder), chunk=2))
    with torch.no_grad():
        first = short.head(short.features(short.seen(seen)), noise[:, :2])  # type: ignore[call-arg]
    assert first[0].numpy() == pytest.approx(np.array(ANSWER[:2]), abs=1e-4)


def test_adapters_learn_alone_and_are_all_that_a_run_keeps(folder: Path) -> None:
    pytest.importorskip("peft")
    one, (seen, noise) = actor(folder, trained="lora", rank=2), observed()
    before = one.head(one.features(one.seen(seen)), noise).detach()  # type: ignore[call-arg]
    assert before[0].numpy() == pytest.approx(np.array(ANSWER), abs=1e-4)  # they change nothing at first
    trained = {name for name, weight in one.named_parameters() if weight.requires_grad}
    assert all("lora" in name or "_proj." in name or "_mlp_" in name for name in trained - {"head.noise"})
    assert trained <= set(one.state_dict()) and not any("base_layer" in name for name in one.state_dict())
    optimiser = torch.optim.Adam(one.trained(), 1e-2)
    action = torch.zeros(1, 6, 3)
    for _ in range(2):
        one.head.loss(one.features(one.seen(seen)), action, torch.Generator().manual_seed(0)).mean().backward()  # type: ignore
        optimiser.step()
    idle = {name for name, weight in one.named_parameters() if weight.requires_grad and weight.grad is None}
    idle.remove("head.noise")  # of samples
    assert all("language.layers.1." in name for name in idle)  # nothing follows the last layer's keys and values
    other = actor(folder, trained="lora", rank=2)
    other.load_state_dict(one.state_dict())
    for first, second in ((one, other), (one, one.copied())):
        after = [each.head(each.features(each.seen(seen)), noise) for each in (first, second)]  # type: ignore
        torch.testing.assert_close(*after)
    assert not torch.allclose(after[0], before, atol=1e-3)


def test_log_probabilities_are_those_of_what_was_sampled(folder: Path) -> None:
    one, (seen, _) = actor(folder), observed()
    with torch.no_grad():
        features = one.features(one.seen(seen))
        action, choice = one.head.sample(features, 1.0, torch.Generator().manual_seed(0))
        found, entropy = one.head.log_prob(features, choice, 1.0)
        apart = one.head.divergence(features, one.head.distribution(features, choice), choice)
    assert action.shape == found.shape == entropy.shape == apart.shape == (1, 6, 3)
    # 2 steps, each with a density of about its entropy
    assert float(found.mean()) == pytest.approx(-float(entropy.mean()), abs=1.5)
    assert float(apart.abs().max()) == 0.0


def test_says_what_is_wrong_with_a_checkpoint(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")

    def refused(match: str, change: Any = None, **given: Any) -> None:
        write_smolvla(tmp_path, 7, ("scene",), 3)
        if change is not None:
            changed = dict(tensors)
            change(changed)
            save_file(changed, tmp_path / "model.safetensors")
        with pytest.raises(UserError, match=match):
            actor(tmp_path, **given)

    name = "model.state_proj.bias"
    refused("lacks the tensor 'model.state_proj.bias'", lambda held: held.pop(name))
    refused(
        "has the tensor 'model.more', which its network has no place",
        lambda held: held.update({"model.more": held[name]}),
    )
    refused(
        r"state_proj.bias' has the shape \[2\], and its config.json means \[32\]",
        lambda held: held.update({name: held[name][:2]}),
    )
    refused("it has 7 elements of observation.state, and this task 8", layout=replace(LAYOUT, state=8))
    refused("it has 3 elements of action, and this task 2", actions=2)
    refused("it has 1 cameras, and this task 2", layout=replace(LAYOUT, images=(2, 16, 12, 3)))
    refused("the action's size is 9 here, and at most 8 there", actions=9)
    config = json.loads((folder / "config.json").read_text())
    for given, match in (
        ({"type": "pi05"}, "of the type 'pi05'; smolvla, pi0 and openvla are read"),
        ({"adapt_to_pi_aloha": True}, "adapt_to_pi_aloha: True is not read"),
        ({"vlm_model_name": "some/model"}, "hf download some/model config.json tokenizer.json --local-dir"),
        ({"max_state_dim": "many"}, "does not say .*'many'"),
    ):
        write_smolvla(tmp_path, 7, ("scene",), 3)
        (tmp_path / "config.json").write_text(json.dumps({**config, **given}))
        if "vlm_model_name" in given:
            (tmp_path / "vlm" / "tokenizer.json").unlink()
        with pytest.raises(UserError, match=match):
            actor(tmp_path)
    with (
        monkeypatch.context() as patch,
        pytest.raises(UserError, match="too many for a policy file of 0 MiB"),
    ):
        patch.setattr("rlstack.policies.limits.ORDINARY", replace(ORDINARY, file_bytes=10**5))
        write_smolvla(tmp_path, 7, ("scene",), 3)
        actor(tmp_path)
    write_smolvla(tmp_path, 7, ("scene",), 3)
    (tmp_path / "model.safetensors").unlink()
    torch.save({"model": LAYOUT}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="cannot be read as weights alone"):
        actor(tmp_path)
    with pytest.raises(UserError, match=r"model.safetensors cannot be read"):
        (tmp_path / "model.safetensors").write_bytes(b"nothing")
        actor(tmp_path)


def test_goes_on_by_demonstrations_then_by_trials_and_into_a_policy_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft")
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 32)
    folder = tmp_path / "smolvla"
    write_smolvla(folder, 7, ("scene",), 3)
    of_checkpoint = CheckpointSettings(folder=str(folder), rank=2)
    torch.manual_seed(0)
    one = VLASFT(VLASFTSettings(checkpoint=of_checkpoint, batch=4, chunk=3), environment(2))
    draw = torch.Generator().manual_seed(0)
    columns = one.environment.pipeline.size
    seen = one.policy.seen(100.0 * torch.rand(4, columns, generator=draw))
    one.policy.normalise_by(seen.state, seen.images, torch.rand(4, 3, generator=draw))
    lesson = Lesson(seen, torch.rand(4, 3, 3, generator=draw), torch.ones(4, 3), torch.rand(4, 6, generator=draw))
    assert np.isfinite(float(one.learner.update(iter([lesson]), 0.5)["actions"]))
    graph = PolicyGraph(TASK.pipeline(PANDA), one.actor(), TASK.inputs)
    contract = make_contract("words", "table_push", TASK, PANDA, graph, training={}, evaluation={})
    file = tmp_path / "policy.onnx"
    write_policy(to_onnx(graph, contract), contract, file)
    assert compare(graph, contract, file, PANDA, observations=50) < TOLERANCE
    save_checkpoint(tmp_path, {"algorithm": one.state_dict()})
    tuned = VLAPPOSettings(checkpoint=of_checkpoint, chunk=3, rollout=2, warm_up=0, batch=4, pretrained=str(tmp_path))
    other = VLAPPO(tuned, environment(2))
    other.open(None)
    torch.testing.assert_close(other.policy.state_dict(), one.policy.state_dict())
    assert np.isfinite(list(other.iterate(0.2).logged().values())).all()
    with pytest.raises(UserError, match="needs its own statistics"):
        VLAPPO(replace(tuned, pretrained=""), environment(1)).open(None)
