from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from rlstack.bringup.verification_check import require_verification
from rlstack.bringup.verify import verify, verify_all
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.kinds.quadrotor.verification import CALM
from rlstack.policies import load_policy, write_policy
from rlstack.sim.vector import BATCH
from rlstack.verification.flight_baselines import CONTROLLERS
from rlstack.verification.reality_runner import RealityGrid
from tests.support.policies import write_constant_policy, write_hover_policy
from tests.support.records import write_record

pytest.importorskip("matplotlib")


def for_hover(path: Path) -> Path:
    """Say that the policy file is one of the hover task."""
    model, contract = onnx.load(path), load_policy(path).contract
    write_policy(model, replace(contract, task="quadrotor_hover"), path)
    return path


def test_classical_controllers_fly_the_same_episodes_and_are_not_judged(tmp_path: Path) -> None:
    robot = load_quadrotor("crazyflie")
    verified = verify(
        for_hover(write_hover_policy(tmp_path / "policy.onnx", robot)), backends=[BATCH], episodes=8, margins=["none"]
    )
    entry = json.loads(verified.record.read_text())["backends"][BATCH]
    assert list(entry["baselines"]) == list(CONTROLLERS)
    for name, theirs in entry["baselines"].items():
        assert theirs["episodes"] == 8 and theirs["lost"] == 0.0 and theirs["rmse_m"] < 0.1
        assert name in verified.table()
        assert name in verified.report.read_text()
    assert not any(name in reason for name in CONTROLLERS for reason in verified.verification.failures)


def test_a_policy_whose_task_they_cannot_fly_is_reported_alone(tmp_path: Path) -> None:
    robot = load_quadrotor("crazyflie")
    policy = for_hover(write_constant_policy(tmp_path / "policy.onnx", robot, 1500.0))
    verified = verify(policy, backends=[BATCH], episodes=2, margins=["none"])
    assert json.loads(verified.record.read_text())["backends"][BATCH]["baselines"] == {}
    assert not any(name in verified.table() for name in CONTROLLERS)


def test_each_simulator_is_a_column_and_what_they_disagree_by_is_said(tmp_path: Path) -> None:
    policy = for_hover(write_hover_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie")))
    verified = verify(policy, backends=[BATCH, "mujoco"], topics=False, episodes=8, margins=["none"])
    data = json.loads(verified.record.read_text())
    assert list(data["backends"]) == [BATCH, CALM, "mujoco"]
    assert data["backends"]["mujoco"]["flown_in"] == "mujoco (in process)"
    assert set(data["transfer"]) == {data["policy"], *CONTROLLERS}
    for row in data["transfer"].values():
        assert set(row) == {BATCH, CALM, "mujoco"}
        assert row["mujoco"]["error_m"]["value"] == pytest.approx(row[BATCH]["error_m"]["value"], abs=5e-3)
    (apart,) = data["disagreements"]
    assert apart["within_limits"] and apart["position_m"] < 1e-3 and apart["cause"] == "rounding"
    page = verified.report.read_text()
    assert "From simulator to simulator" in page and "Where the simulators disagree" in page
    assert (tmp_path / "same_start.png").is_file()
    assert "--no-topics" in data["command"]


def test_several_policies_are_compared_in_one_table(tmp_path: Path) -> None:
    robot = load_quadrotor("crazyflie")
    policies = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        policies.append(for_hover(write_hover_policy(tmp_path / name / "policy.onnx", robot)))
    done = verify_all(policies, backends=[BATCH], episodes=4, margins=["none"])
    assert set(done.as_data()["transfer"]) == {str(policy) for policy in policies}
    assert "Comparison" in done.table() and not done.passed
    assert all((policy.parent / "verify_in_process.json").is_file() for policy in policies)


def test_an_interrupted_verification_keeps_what_is_complete_and_does_not_pass(tmp_path: Path, monkeypatch) -> None:
    robot = load_quadrotor("crazyflie")
    policy = for_hover(write_constant_policy(tmp_path / "policy.onnx", robot, 1500.0))

    def interrupted(self, *args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RealityGrid, "run", interrupted)
    verified = verify(policy, backends=[BATCH, "mujoco"], episodes=2)
    data = json.loads((tmp_path / "verify.json").read_text())
    assert verified.incomplete and not data["passed"] and list(data["backends"]) == [BATCH, CALM]
    assert "interrupted before mujoco, mujoco (topics)" in data["incomplete"] and "Incomplete" in data["reasons"][0]
    assert "observation delay" in data["reasons"][-1] and "INCOMPLETE" in verified.table()
    with pytest.raises(UserError, match="Incomplete: it was interrupted"):
        require_verification(policy, robot)
    flown = {"mujoco (topics)": {"flown_in": "mujoco (topics)", "success": 1.0}}
    proof = {name: value for name, value in data.items() if name not in ("signature", "incomplete", "reasons")}
    write_record(policy, {**proof, "passed": True, "backends": flown})
    assert verify(policy, backends=[BATCH, "mujoco"], episodes=2).incomplete
    assert require_verification(policy, robot)["passed"], "one that passed stays"


def test_the_margins_of_a_policy_are_measured_and_judged(tmp_path: Path) -> None:
    policy = for_hover(write_constant_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"), 1500.0))
    verified = verify(policy, backends=[BATCH], topics=False, episodes=2, margins=["mass_scale", "drag_scale"])
    grid = json.loads(verified.record.read_text())["reality"]
    assert list(grid["axes"]) == ["mass_scale", "drag_scale"] and grid["trials"] == 2
    heavy, drag = grid["axes"].values()
    assert heavy["judged"] and heavy["passed"] is False and heavy["margin"] is None and drag["passed"] is None
    assert "Margins for reality" in verified.report.read_text() and "observation_delay_s" not in grid["axes"]
    assert "Observation delay".lower() in str(grid["not_measured"]).lower()


def test_a_margin_that_the_trials_cannot_vary_is_refused(tmp_path: Path) -> None:
    policy = for_hover(write_constant_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"), 1500.0))
    with pytest.raises(UserError, match="mass_scal"):
        verify(policy, backends=[BATCH], episodes=2, margins=["mass_scal"])
