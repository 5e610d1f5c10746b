"""`rlstack drill` breaks the deployed chain, and says what the guard has answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlstack import cli

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]


def test_faults_of_policy_and_sensor_are_answered_and_reported(hover_policy: Path, tmp_path: Path, capsys) -> None:
    # slower than real time, as in the tests that kill nodes: a busy machine must not be what the guard answers
    words = ["--policy", str(hover_policy), "--robot", "crazyflie", "--repeats", "1", "--real-time-factor", "0.5"]
    faults = ["policy_nan", "sensor_lost", "estop"]
    cli.main(["drill", *words, "--faults", ",".join(faults), "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    data = json.loads((tmp_path / "drill.json").read_text())
    assert data["complete"] and list(data["faults"]) == faults and data["real_time_factor"] == 0.5
    answers = {name: fault["repeats"][0]["answer"] for name, fault in data["faults"].items()}
    assert answers == {"policy_nan": "hover", "sensor_lost": "disarmed", "estop": "estop"}
    assert "the policy's command is not finite" in data["faults"]["policy_nan"]["repeats"][0]["reason"]
    excursion = data["faults"]["policy_nan"]["repeats"][0]["excursion"]
    assert 0.0 < excursion["distance m"] < 1.0
    assert "worst excursion" in printed and "repeats passed." in printed
    assert (tmp_path / "drill.png").read_bytes().startswith(b"\x89PNG")
