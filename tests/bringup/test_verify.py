from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from rlstack.bringup.verify import BATCH, verify
from rlstack.evaluation.baselines import CONTROLLERS
from rlstack.policies import load_policy, write_policy
from rlstack.robots import load_quadrotor
from tests.support.policies import write_constant_policy, write_hover_policy

pytest.importorskip("matplotlib")


def for_hover(path: Path) -> Path:
    """Say that the policy file is one of the hover task."""
    model, contract = onnx.load(path), load_policy(path).contract
    write_policy(model, replace(contract, task="quadrotor_hover"), path)
    return path


def test_classical_controllers_fly_the_same_episodes_and_are_not_judged(tmp_path: Path) -> None:
    robot = load_quadrotor("crazyflie")
    verified = verify(for_hover(write_hover_policy(tmp_path / "policy.onnx", robot)), backends=[BATCH], episodes=8)
    entry = json.loads(verified.record.read_text())["backends"][BATCH]
    assert list(entry["baselines"]) == list(CONTROLLERS)
    for name, theirs in entry["baselines"].items():
        assert theirs["episodes"] == 8 and theirs["lost"] == 0.0 and theirs["rmse_m"] < 0.1
        assert f"{name} (batch, baseline)" in verified.table()
        assert name in verified.report.read_text()
    assert not any(name in reason for name in CONTROLLERS for reason in verified.verification.failures)


def test_a_policy_whose_task_they_cannot_fly_is_reported_alone(tmp_path: Path) -> None:
    robot = load_quadrotor("crazyflie")
    policy = for_hover(write_constant_policy(tmp_path / "policy.onnx", robot, 1500.0))
    verified = verify(policy, backends=[BATCH], episodes=2)
    assert json.loads(verified.record.read_text())["backends"][BATCH]["baselines"] == {}
    assert "baseline" not in verified.table()
