from __future__ import annotations

import hashlib
from pathlib import Path

from rlstack.files import write_json
from rlstack.policies import write_policy
from rlstack.policies.margins_table import describe_margins
from tests.policies.graphs import mlp_contract, mlp_model
from tests.support.records import write_record


def test_margins_of_the_file_s_own_record_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    write_policy(mlp_model(), mlp_contract(), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert "no verify.json of this file" in describe_margins(path, digest)
    axes = {
        "observation_delay_s": {"margin": 0.03, "required": 0.02, "unit": "s", "passed": True, "open_ended": True},
        "mass_scale": {"margin": None, "required": 1.3, "unit": "x", "passed": False},
        "drag_scale": {"margin": 4.0, "required": None, "unit": "x", "passed": None},
    }
    record = {"sha256": digest, "robot": "crazyflie"}
    write_json(tmp_path / "verify.json", record)
    assert "its verify.json is unsigned; verify it again" in describe_margins(path, digest)
    write_record(path, record)
    assert "has no grid of departures" in describe_margins(path, digest)
    write_record(path, {**record, "reality": {"axes": axes}})
    text = describe_margins(path, digest)
    for shown in ("on crazyflie", "0.03 s or more", "0.02 s", "not passed", "not judged"):
        assert shown in text
    write_record(path, {**record, "sha256": "0" * 64, "reality": {"axes": axes}})
    assert "no verify.json of this file" in describe_margins(path, digest)
