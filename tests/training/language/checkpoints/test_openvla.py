"""OpenVLA's checkpoints: the answers of the libraries that they are made of, samples, the graph, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.interfaces.instruction import encoded
from rlstack.policies.operators import ALLOWED
from rlstack.tasks.core.onnx_tracing import trace_to_onnx
from rlstack.training.language.actor import LanguageActor, Layout, PolicySettings
from rlstack.training.language.checkpoints.opening import CheckpointSettings
from tests.support.write_openvla import write_openvla

pytest.importorskip("tokenizers")

WORDS = ("block", "left", "push", "red", "the", "to")
LAYOUT = Layout(7, (1, 20, 24, 3), 128)

BINS = [136, 228, 99, 131, 193, 65]
LOG_PROBABILITIES = [-3.52602, -2.86483, -2.49963, -2.17749, -2.71575, -1.52105]
"""Likeliest answers with these weights, by timm 1.0.31's vision transformers and transformers 5.5.4's Llama."""


def actor(folder: Path, actions: int = 3, layout: Layout = LAYOUT, chunk: int = 2, **given: Any) -> LanguageActor:
    checkpoint = CheckpointSettings(**{"folder": str(folder), "trained": "all", "statistics": "checkpoint", **given})
    return LanguageActor(layout, WORDS, actions, PolicySettings(checkpoint=checkpoint, chunk=chunk))


def observed(count: int = 1) -> Tensor:
    """Return observations (count, columns), of which the first is that of the answers."""
    rng = np.random.default_rng(2)
    text = encoded("push the red block to the left")
    rows = [np.concatenate([np.zeros(7), text, rng.integers(0, 256, (20, 24, 3)).flatten()]) for _ in range(count)]
    return torch.from_numpy(np.stack(rows)).float()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("openvla")
    write_openvla(path, 3)
    return path


def test_answers_as_its_libraries_do(folder: Path) -> None:
    one, seen = actor(folder), observed()
    with torch.no_grad():
        features = one.features(one.seen(seen))
        found, _ = one.head.log_prob(features, torch.tensor(BINS).reshape(1, 2, 3), 1.0)
        planned = one.plan(seen)
    assert found.flatten().tolist() == pytest.approx(LOG_PROBABILITIES, abs=1e-4)
    centres = -1.0 + (np.array(BINS) + 0.5) * 2.0 / 255.0
    centres = centres.reshape(2, 3) * [1.0, 1.0, 1.0] + [0.5, 0.5, 0.0]  # q01 -0.5 and q99 1.5; the last axis as it is
    assert planned[0].numpy() == pytest.approx(centres, abs=1e-5)


def test_samples_have_the_log_probabilities_of_reading_them(folder: Path) -> None:
    one, draw = actor(folder), torch.Generator().manual_seed(0)
    with torch.no_grad():
        features = one.features(one.seen(observed(3)))
        action, choice = one.head.sample(features, 1.0, draw)
        found, entropy = one.head.log_prob(features, choice, 1.0)
        loss = one.head.loss(features, action)
        apart = one.head.divergence(features, one.head.distribution(features, choice), choice)
    assert action.shape == choice.shape == entropy.shape == (3, 2, 3)
    torch.testing.assert_close(loss, -found.sum(dim=-1))  # the bins' centres are in their bins
    assert float(apart.abs().max()) < 1e-6


def test_its_graph_says_the_same(folder: Path) -> None:
    one, seen = actor(folder, chunk=1).eval(), observed(4)

    class Planner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = one

        def forward(self, observation: Tensor) -> Tensor:
            return self.actor.plan(observation)

    graph = trace_to_onnx(Planner(), {"observation": (seen.shape[1],)}, {"actions": (1, 3)})
    assert {node.op_type for node in graph.graph.node} <= ALLOWED
    (found,) = onnxruntime.InferenceSession(graph.SerializeToString()).run(None, {"observation": seen.numpy()})
    with torch.no_grad():
        assert found == pytest.approx(one.plan(seen).numpy(), abs=1e-5)


def test_adapters_learn_in_its_language_model(folder: Path) -> None:
    pytest.importorskip("peft")
    one, seen = actor(folder, trained="lora", rank=2, frozen="int8"), observed(2)
    assert {"lora" in name for name, weight in one.named_parameters() if weight.requires_grad} == {True}
    optimiser, losses = torch.optim.Adam(one.trained(), 1e-2), list[float]()
    for _ in range(4):
        loss = one.head.loss(one.features(one.seen(seen)), torch.zeros(2, 2, 3)).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0] - 0.5
    assert all("lora" in name or name.startswith(("tokeniser", "head.")) for name in one.state_dict())


def test_says_what_does_not_fit(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it has 3 elements of action, and this task 2"):
        actor(folder, actions=2)
    with pytest.raises(UserError, match="sees one camera, and this task has 2"):
        actor(folder, layout=Layout(7, (2, 20, 24, 3), 128))
    with pytest.raises(UserError, match="trained: expert is not allowed"):
        actor(folder, trained="expert")
    write_openvla(tmp_path, 3)
    index = tmp_path / "model.safetensors.index.json"
    held = json.loads(index.read_text())
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}))
    with pytest.raises(UserError, match="lacks the tensor"):
        actor(tmp_path)
    index.write_text(json.dumps({"weight_map": {**held["weight_map"], "a": "../elsewhere"}}))
    with pytest.raises(UserError, match=r"names \.\./elsewhere, which is not in the folder"):
        actor(tmp_path)
    write_openvla(tmp_path, 3)
    config = json.loads((tmp_path / "config.json").read_text())
    twice = {"table": {}, "shelf": {}}
    (tmp_path / "config.json").write_text(json.dumps({**config, "norm_stats": twice}))
    with pytest.raises(UserError, match=r"statistics of 2 datasets \(table, shelf\): keep one"):
        actor(tmp_path)
