"""A small ACT policy that LeRobot 0.6.1 wrote (tests/support/write_lerobot_act.py), beside what it answered itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlstack.cli import main
from rlstack.errors import UserError
from rlstack.importers import SOURCES
from rlstack.importers.mapping import NetworkSettings
from rlstack.interfaces.kind_signals import element_names
from rlstack.robots import load_robot

pytest.importorskip("safetensors")

FILES = Path(__file__).with_name("lerobot_act")
JOINTS = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]


def test_a_policy_file_answers_as_select_action_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = np.load(FILES / "recorded.npz")
    mapping = {
        "task": "arm_reach",
        "rate_hz": 30,
        "observation": [
            {"signal": "goal_position", "input": "observation.environment_state"},
            {"signal": "joint_position", "names": JOINTS, "input": "observation.state"},
        ],
        "action": {"signal": "joint_target", "names": JOINTS},
    }
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(mapping))
    seen = recorded["observation"]
    order = [JOINTS.index(name) for name in element_names(load_robot("so100"))["joints"]]
    np.savez(tmp_path / "r.npz", joint_position=seen[:, :6][:, order], goal_position=seen[:, 6:], **recorded)
    words = ["--map", str(tmp_path / "mapping.yaml"), "--robot", "so100", "--out", str(tmp_path / "policy.onnx")]
    words += ["--recorded", str(tmp_path / "r.npz")]
    assert main(["import", "--from", "lerobot_act", str(FILES), *words]) == 0, capsys.readouterr().err
    step = SOURCES.load("lerobot_act")(FILES, NetworkSettings(), tmp_path).start()
    worst = max(float(np.abs(step(o) - a).max()) for o, a in zip(seen, recorded["action"]))
    assert worst < 1e-5  # 40 steps: chunks of 5 actions


@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        ("config.json", {"type": "diffusion"}, "type 'diffusion'"),
        ("config.json", {"temporal_ensemble_coeff": 0.01}, "averages overlapping chunks"),
        (
            "config.json",
            {"input_features": {"observation.images.top": {}}},
            "sees observation.images.top.*policy server",
        ),
        ("config.json", {"feedforward_activation": "glu"}, "'glu' is unknown"),
        ("config.json", {"n_decoder_layers": 2}, "not as LeRobot writes.*decoder.layers.1"),
        ("policy_preprocessor.json", {"steps": []}, "0 steps normalizer_processor"),
        ("policy_postprocessor.json", {"steps": [{"registry_name": "absolute_action"}]}, "the step absolute_action"),
    ],
)
def test_what_is_not_read_is_refused(tmp_path: Path, file: str, changes: Any, said: str) -> None:
    folder = shutil.copytree(FILES, tmp_path / "policy")
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | changes))
    with pytest.raises(UserError, match=said):
        SOURCES.load("lerobot_act")(folder, NetworkSettings(), tmp_path)
