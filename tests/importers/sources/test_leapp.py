"""Bundles of LEAPP, traced and written by it, become policy files that answer as its own runtime does."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from rlstack.cli import main
from rlstack.errors import UserError
from rlstack.importers import SOURCES
from rlstack.importers.mapping import NetworkSettings
from tests.support.imported import OBSERVATION, fly, mapping, rotors

# looked for, not imported: that takes 2.6 s of every process that collects these tests
pytestmark = pytest.mark.skipif(find_spec("leapp") is None, reason="leapp is not installed")

INPUTS = ("policy/goal", "estimator/motion", "estimator/motion", "estimator/motion", "policy/last")
TERMS = [
    {**(term if isinstance(term, dict) else {"signal": term}), "input": name} for term, name in zip(OBSERVATION, INPUTS)
]
NETWORK = {"output": "action"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.leapp_bundle import write_bundle

    return write_bundle(tmp_path_factory.mktemp("leapp"), rotors())


@pytest.mark.filterwarnings("ignore")
def test_a_bundle_answers_as_in_leapps_own_runtime(bundle: Path, tmp_path: Path) -> None:
    import leapp

    runtime = leapp.InferenceManager(str(bundle))

    def own(observation: np.ndarray) -> np.ndarray:
        seen = torch.tensor(observation[None], dtype=torch.float32)
        inputs = {"estimator/motion": seen[:, :10], "policy/goal": seen[:, 10:13], "policy/last": seen[:, 13:]}
        return np.asarray(runtime.run_policy(inputs)["policy/action"][0], dtype=float)

    order = np.r_[3:13, 0:3, 13:17]
    fly(tmp_path, "leapp", bundle, own, order=order, observation=TERMS, network=NETWORK)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rate_hz": 50}, "rate_hz is 50, but the network was trained at 100 Hz"),
        ({"network": {}}, "policy/action, policy/stiffness.*network.output"),
        ({"network": {"output": "acton"}}, "'acton'.*action"),
        (
            {"observation": OBSERVATION},
            "observation.0. .goal_position.: input is missing.*estimator/motion, policy/goal",
        ),
        ({"observation": [{**TERMS[0], "input": "policy/gol"}]}, "'policy/gol'"),
        ({"observation": [TERMS[0], *TERMS[2:]]}, "estimator/motion takes 10 numbers, but has 6 .linear_velocity 3"),
        (
            {"action": {"signal": "rotor_speed", "names": rotors()[::-1], "to_limits": True}},
            "action: names: the order is .* but the network's file says",
        ),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: Any, said: str
) -> None:
    import re

    file = mapping(tmp_path, **{"observation": TERMS, "network": NETWORK, **changes})
    words = ["--map", str(file), "--robot", "crazyflie", "--out", str(tmp_path / "p.onnx")]
    assert main(["import", "--from", "leapp", str(bundle.parent), *words]) == 2
    assert re.search(said, capsys.readouterr().err)
    assert not (tmp_path / "p.onnx").exists()


def spoilt(data: Any, at: str, value: Any) -> None:
    """Replace the value at a path of keys."""
    *keys, last = at.split(".")
    for key in keys:
        data = data[key]
    data[last] = value


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        ("models", None, "needs the sections models and pipeline"),
        ("models.policy.parameters.backend", "jit", "'jit', which is code"),
        ("models.policy.parameters.model_path", "../policy.onnx", "not within the bundle"),
        ("models.policy.parameters.sha256sum", "0" * 64, "SHA-256"),
        ("models.policy.parameters", None, "not as LEAPP writes it"),
        ("pipeline.data_flow", {"policy/action": ["estimator/motion"]}, "comes after"),
        ("pipeline.data_flow", {"estimater/feature": ["policy/feature"]}, "'estimater/feature'"),
        ("pipeline.data_flow", {}, "nothing feeds the input feature"),
        ("pipeline.feedback_flow", {"estimator/feature": ["policy/goal"]}, "has the shape|nothing feeds"),
        ("pipeline.initial_values", "bundle.yaml", "holds no initial values"),
        ("pipeline.inputs.policy", ["goal", "last", "gaol"], "no gaol among its inputs"),
    ],
)
def test_a_bundle_that_is_not_whole_is_refused(bundle: Path, tmp_path: Path, at: str, value: Any, said: str) -> None:
    folder = shutil.copytree(bundle.parent, tmp_path / "bundle")
    data = yaml.safe_load(bundle.read_text())
    spoilt(data, at, value)
    (folder / "bundle.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(UserError, match=said):
        SOURCES.load("leapp")(folder / "bundle.yaml", NetworkSettings(output="action"), tmp_path)


def test_a_folder_without_a_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 0 YAML files"):
        SOURCES.load("leapp")(tmp_path, NetworkSettings(), tmp_path)
