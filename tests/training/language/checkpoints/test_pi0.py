"""pi0's checkpoints: LeRobot's own answers, what is refused, adapters, log-probabilities, steering, policy file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.policies import write_policy
from rlstack.training.algorithms.vla_dsrl import VLADSRL, VLADSRLSettings
from rlstack.training.algorithms.vla_sft import VLASFT, VLASFTSettings
from rlstack.training.export import TOLERANCE, PolicyGraph, compare, make_contract, to_onnx
from rlstack.training.language.actor import LanguageActor, PolicySettings
from rlstack.training.language.checkpoints.opening import CheckpointSettings
from rlstack.training.language.supervised import Lesson
from rlstack.training.run_folder import save_checkpoint
from tests.support.write_pi0 import write_pi0
from tests.training.language.checkpoints.test_smolvla import LAYOUT, WORDS, observed
from tests.training.test_vla import PANDA, TASK, environment

pytest.importorskip("tokenizers")

ANSWER = [
    [0.39807, 0.59122, 1.32397],
    [-1.08072, -1.24301, 1.08968],
    [1.64059, -0.84871, -0.55587],
    [0.99618, -1.12408, -0.77103],
    [0.23779, -0.35540, -0.93040],
    [1.09498, -0.97129, -1.10009],
]
"""What LeRobot 0.6.1 with transformers 5.5.4 plans with these weights, in the action's unit."""

_BOTH = "model.paligemma_with_expert."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pi0")
    write_pi0(path, 7, ("scene",), 3)
    return path


def actor(folder: Path, chunk: int = 6, **given: Any) -> LanguageActor:
    of_checkpoint = {"folder": str(folder), "trained": "expert", "statistics": "checkpoint", **given}
    settings = PolicySettings(checkpoint=CheckpointSettings(**of_checkpoint), chunk=chunk)
    return LanguageActor(LAYOUT, WORDS, 3, settings)


def planned(one: LanguageActor) -> Any:
    seen, noise = observed()
    with torch.no_grad():
        return one.head(one.features(one.seen(seen)), noise)[0].numpy()  # type: ignore[call-arg]


@pytest.mark.parametrize(("kept", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.1), ("int8", 0.2)])
def test_plans_what_lerobot_plans(folder: Path, kept: Any, tolerance: float) -> None:
    assert planned(actor(folder, frozen=kept)) == pytest.approx(np.array(ANSWER), abs=tolerance)


def test_shorter_chunk_is_the_beginning_of_the_whole_one(folder: Path) -> None:
    one = actor(folder, chunk=2)
    assert planned(one) == pytest.approx(np.array(ANSWER[:2]), abs=1e-4)
    features = one.features(one.seen(observed()[0]))
    assert one.head.loss(features, torch.zeros(1, 2, 3)).shape == (1, 2)
    end = one.head.inner(torch.tensor([[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]]))  # type: ignore[operator]
    assert end.shape == (1, 6, 8) and torch.equal(end[:, 2:], end[:, 1:2].repeat(1, 4, 1))


@pytest.mark.parametrize("exploration", ["noise", "sde", "sde_step"])
def test_log_probabilities_are_those_of_what_was_sampled(folder: Path, exploration: Any) -> None:
    one = actor(folder, chunk=4)
    one.head.explore_by(exploration)
    with torch.no_grad():
        features = one.features(one.seen(observed()[0]))
        action, choice = one.head.sample(features, 1.0, torch.Generator().manual_seed(0))
        found, entropy = one.head.log_prob(features, choice, 1.0)
        apart = one.head.divergence(features, one.head.distribution(features, choice), choice)
    assert action.shape == found.shape == entropy.shape == apart.shape == (1, 4, 3)
    assert float(found.mean()) == pytest.approx(-float(entropy.mean()), abs=3.0)
    assert float(apart.abs().max()) == 0.0


def test_older_names_of_tensors_are_read(folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    write_pi0(tmp_path, 7, ("scene",), 3)
    held = load_file(folder / "model.safetensors")
    words = held.pop(f"{_BOTH}paligemma.lm_head.weight")
    held[f"{_BOTH}paligemma.model.language_model.embed_tokens.weight"] = words
    save_file({name.removeprefix("model."): one for name, one in held.items()}, tmp_path / "model.safetensors")
    assert planned(actor(tmp_path)) == pytest.approx(np.array(ANSWER), abs=1e-4)


def test_adapters_learn_alone_and_are_all_that_a_run_keeps(folder: Path) -> None:
    pytest.importorskip("peft")
    one, (seen, _) = actor(folder, trained="lora", rank=2), observed()
    assert planned(one) == pytest.approx(np.array(ANSWER), abs=1e-4)  # they change nothing at first
    trained = {name for name, weight in one.named_parameters() if weight.requires_grad}
    assert all("lora" in name or "_proj." in name or "_mlp_" in name for name in trained - {"head.noise"})
    assert trained <= set(one.state_dict()) and not any("base_layer" in name for name in one.state_dict())
    optimiser = torch.optim.Adam(one.trained(), 1e-2)
    for _ in range(2):
        features = one.features(one.seen(seen))
        one.head.loss(features, torch.zeros(1, 6, 3), torch.Generator().manual_seed(0)).mean().backward()  # type: ignore
        optimiser.step()
    after = planned(one)
    assert not np.allclose(after, np.array(ANSWER), atol=1e-3)
    other = actor(folder, trained="lora", rank=2)
    other.load_state_dict(one.state_dict())
    for each in (other, one.copied()):
        assert planned(each) == pytest.approx(after, abs=1e-6)


def test_says_what_is_wrong_with_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())

    def refused(match: str, change: Any = None, **given: Any) -> None:
        write_pi0(tmp_path, 7, ("scene",), 3)
        changed = dict(tensors)
        if change is not None:
            change(changed)
        save_file(changed, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_text(json.dumps({**config, **given}))
        with pytest.raises(UserError, match=match):
            actor(tmp_path)

    name, first = "model.state_proj.bias", f"{_BOTH}gemma_expert.model.layers.0.self_attn.q_proj.weight"
    refused("lacks the tensor 'model.state_proj.bias'", lambda held: held.pop(name))
    refused(f"lacks the tensor '{first}'", lambda held: held.pop(first))
    refused(
        "has the tensor 'model.more', which its network has no place",
        lambda held: held.update({"model.more": held[name]}),
    )
    refused(
        r"state_proj.bias' has the shape \[2\], and its config.json means \[16\]",
        lambda held: held.update({name: held[name][:2]}),
    )
    refused("use_relative_actions: True is not read", use_relative_actions=True)
    refused("action_expert_variant gemma_9b must be one of gemma_2b, gemma_300m", action_expert_variant="gemma_9b")
    refused(r"image_resolution \[224, 224\] must be \[32, 32\]", image_resolution=[224, 224])
    refused("does not say .*'many'", max_state_dim="many")
    refused("the action's size is 3 here, and at most 2 there", max_action_dim=2)
    refused("chunk is 6 here, and at most 5 there", chunk_size=5)
    del config["num_inference_steps"]
    refused("lacks in config.json 'num_inference_steps'")
    (tmp_path / "vlm" / "tokenizer.json").unlink()
    config["num_inference_steps"] = 10
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"hf download google/paligemma-3b-pt-224 tokenizer.json --local-dir"):
        actor(tmp_path)


def test_learns_demonstrations_then_is_steered_and_is_a_policy_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft")
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 32)
    folder = tmp_path / "pi0"
    write_pi0(folder, 7, ("scene",), 3, chunk=4, steps=2)
    of_checkpoint = CheckpointSettings(folder=str(folder), rank=2)
    torch.manual_seed(0)
    one = VLASFT(VLASFTSettings(checkpoint=of_checkpoint, batch=4, chunk=3), environment(2))
    draw = torch.Generator().manual_seed(0)
    seen = one.policy.seen(100.0 * torch.rand(4, one.environment.pipeline.size, generator=draw))
    one.policy.normalise_by(seen.state, seen.images, torch.rand(4, 3, generator=draw))
    lesson = Lesson(seen, torch.rand(4, 3, 3, generator=draw), torch.ones(4, 3))
    assert np.isfinite(float(one.learner.update(iter([lesson]), 0.5)["actions"]))
    graph = PolicyGraph(TASK.pipeline(PANDA), one.actor(), TASK.inputs)
    contract = make_contract("words", "table_push", TASK, PANDA, graph, training={}, evaluation={})
    file = tmp_path / "policy.onnx"
    write_policy(to_onnx(graph, contract), contract, file)
    assert compare(graph, contract, file, PANDA, observations=20) < TOLERANCE
    save_checkpoint(tmp_path, {"algorithm": one.state_dict()})
    steering = VLADSRLSettings(checkpoint=of_checkpoint, chunk=3, rollout=2, warm_up=0, batch=4, hidden=(8,))
    other = VLADSRL(replace(steering, pretrained=str(tmp_path)), environment(2))
    other.open(None)
    assert other.learner.columns == other.policy.layout.state + 4  # and a mean of the last values
    assert np.isfinite(list(other.iterate(0.0).logged().values())).all()
    fused = other.actor()
    assert not any("base_layer" in name for name in fused.state_dict())
    assert fused.plan(other.environment.observe()[0]).shape == (2, 3, 3)  # type: ignore[operator]
