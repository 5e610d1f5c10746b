"""A policy for a family of robots before it flies one: what verification and deployment make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.verification_check import file_sha256, record_path
from rlstack.bringup.verify import BATCH, verify
from rlstack.errors import UserError
from rlstack.policies import envelope_for, write_policy
from rlstack.robots import load_robot
from tests.policies.graphs import family_contract, family_model
from tests.support.records import write_record

OUTSIDE = "x500 has a torque_per_thrust_m of 0.10847, outside the range 0.005 to 0.05 that the policy was trained over."


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "policy.onnx"
    contract = family_contract(task="quadrotor_hover")
    envelope = envelope_for(load_robot("crazyflie"), contract.inputs, contract.rate_hz, for_family=True)
    write_policy(family_model(), replace(contract, envelope=envelope), path)
    yield path


def proven(policy: Path, robot: str) -> None:
    """Leave a passing record, as a verification on ``robot`` would."""
    facts = {
        "sha256": file_sha256(policy),
        "robot": robot,
        "robot_sha256": load_robot(robot).sha256,
        "passed": True,
        "backends": {"mujoco": {"flown_in": "mujoco (topics)"}},
    }
    write_record(policy, facts)


def test_verify_fails_a_robot_outside_the_family_by_parameter_and_range(policy: Path) -> None:
    verified = verify(policy, backends=[BATCH], episodes=2, robot="x500", margins=["none"])
    assert not verified.passed and OUTSIDE in verified.verification.failures
    assert f"Not passed: {OUTSIDE}" in verified.table()
    record = json.loads(verified.record.read_text())
    assert record["robot_sha256"] == load_robot("x500").sha256
    assert record["robot"] == "x500" and OUTSIDE in record["reasons"]
    inside = verify(policy, backends=[BATCH], episodes=2, robot="crazyflie", margins=["none"])
    assert not any("outside the range" in reason for reason in inside.verification.failures)


def test_verify_asks_which_robot_flies(policy: Path) -> None:
    with pytest.raises(
        UserError, match=r"for the family 'quadrotor', not for one robot: say which one flies with --robot"
    ):
        verify(policy, backends=[BATCH], episodes=2)
    assert not record_path(policy).exists()


def test_deploy_refuses_a_robot_outside_the_family_unless_forced(policy: Path) -> None:
    proven(policy, "x500")
    with pytest.raises(UserError) as refused:
        checked_deployment(policy, "x500")
    assert str(refused.value).startswith(OUTSIDE) and "--force" in str(refused.value)
    assert checked_deployment(policy, "x500", force=True).processes


def test_the_way_to_a_proof_names_the_robot_that_is_to_fly(policy: Path) -> None:
    with pytest.raises(UserError, match=r"has not been verified.*`rlstack verify .*policy.onnx --robot crazyflie`"):
        checked_deployment(policy, "crazyflie")


def test_deploy_takes_a_robot_of_the_family_that_was_verified_itself(policy: Path) -> None:
    proven(policy, "crazyflie")
    assert checked_deployment(policy, "crazyflie").processes
    proven(policy, "mrs_f330")
    with pytest.raises(UserError, match=r"is for 'mrs_f330', not for 'crazyflie': run .* --robot crazyflie`"):
        checked_deployment(policy, "crazyflie")


def test_a_policy_file_without_an_envelope_is_deployed_by_force_only(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    write_policy(family_model(), family_contract(task="quadrotor_hover"), path)
    proven(path, "crazyflie")
    with pytest.raises(UserError, match=r"is not proven for delay, rate, noise, .* or run it anyway with --force"):
        checked_deployment(path, "crazyflie")
    assert checked_deployment(path, "crazyflie", force=True).processes
