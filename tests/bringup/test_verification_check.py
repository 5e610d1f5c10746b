"""What deployment accepts as proof."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rlstack.bringup.verification_check import file_sha256, only_simulator, record_path, require_verification
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.policies import load_policy
from rlstack.policies.record import read_record
from rlstack.policies.released import released
from rlstack.robots import load_robot
from tests.support.records import write_record

ROBOT = load_robot("crazyflie")


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"a policy")
    return path


def record(policy, **changes):
    figures = {"batch": {"success": 0.81}, "mujoco (topics)": {"success": 0.5, "flown_in": "mujoco (topics)"}}
    facts = {"policy": str(policy), "sha256": file_sha256(policy), "passed": True}
    facts |= {"robot": "crazyflie", "robot_sha256": ROBOT.sha256}
    return {**facts, "backends": figures, **changes}


def test_a_passing_record_of_this_very_file_is_accepted(policy):
    write_record(policy, record(policy))
    assert require_verification(policy, ROBOT)["passed"] is True


def test_a_record_of_flights_in_process_alone_is_refused(policy):
    figures = {"batch": {"flown_in": "batch simulator"}, "mujoco": {"flown_in": "mujoco (in process)"}}
    write_record(policy, record(policy, backends=figures))
    with pytest.raises(UserError, match=r"in process only \(batch simulator, mujoco \(in process\)\).*rlstack verify"):
        require_verification(policy, ROBOT)


def test_a_record_of_one_simulator_alone_says_so(policy):
    assert only_simulator(record(policy, backends={"mujoco": {"flown_in": "mujoco (topics)"}})) == "mujoco"
    both = {"a": {"flown_in": "mujoco (in process)"}, "b": {"flown_in": "mujoco (topics)"}}
    assert only_simulator(record(policy, backends=both)) == "mujoco"
    assert only_simulator(record(policy, backends={**both, "c": {"flown_in": "batch"}})) == ""
    assert only_simulator({}) == ""


def test_where_there_is_only_a_record_in_process_that_is_said_and_what_could_not_hold_it(policy):
    beside = policy.with_name("verify_in_process.json")
    write_json(beside, record(policy, left_out={"mujoco": "it has no wheels."}))
    with pytest.raises(
        UserError, match=r"only verify_in_process.json, which does not cover .*; mujoco: it has no wheels"
    ):
        require_verification(policy, ROBOT)
    write_json(beside, record(policy, sha256="of another file"))
    with pytest.raises(UserError, match=r"has not been verified \(there is no [^,]*\): run"):
        require_verification(policy, ROBOT)
    beside.write_text("[]")
    with pytest.raises(UserError, match=r"has not been verified \(there is no [^,]*\): run"):
        require_verification(policy, ROBOT)


def test_no_record_is_refused_with_the_way_out(policy):
    with pytest.raises(UserError, match=r"has not been verified.*rlstack verify .*--force"):
        require_verification(policy, ROBOT)


def test_a_record_of_another_file_is_refused(policy):
    write_record(policy, record(policy))
    policy.write_bytes(b"another policy")
    with pytest.raises(UserError, match="is for another policy file"):
        require_verification(policy, ROBOT)


def test_a_record_that_nobody_signed_is_refused_though_it_says_passed(policy):
    write_json(record_path(policy), record(policy))
    with pytest.raises(UserError, match=r"is unsigned, so nobody vouches for it: run `rlstack verify .*with --force"):
        require_verification(policy, ROBOT)
    write_record(policy, record(policy, passed=False))
    forged = json.loads(record_path(policy).read_text()) | {"passed": True}
    write_json(record_path(policy), forged)
    with pytest.raises(UserError, match="was changed after it was signed, so nobody vouches"):
        require_verification(policy, ROBOT)


def test_a_record_signed_with_another_key_is_refused(policy, tmp_path, monkeypatch):
    write_record(policy, record(policy))
    monkeypatch.delenv("RLSTACK_VERIFICATION_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with pytest.raises(
        UserError, match=r"is signed with the key [0-9a-f]{16}, and there is no key at .*: run `rlstack"
    ):
        require_verification(policy, ROBOT)


def test_what_was_read_before_is_what_is_judged(policy):
    """Neither file is read a second time, so neither can be swapped in between."""
    write_record(policy, record(policy))
    read, digest = read_record(policy), file_sha256(policy)
    policy.write_bytes(b"swapped")
    record_path(policy).write_text("{}")
    assert require_verification(policy, ROBOT, sha256=digest, record=read)["passed"] is True
    with pytest.raises(UserError, match=rf"another policy file \(SHA-256 {digest[:16]}...\), not for .* \({'0' * 16}"):
        require_verification(policy, ROBOT, sha256="0" * 64, record=read)


def test_a_record_of_another_robot_is_refused(policy):
    write_record(policy, record(policy, robot="x500"))
    with pytest.raises(UserError, match=r"is for 'x500', not for 'crazyflie': run .* --robot crazyflie`"):
        require_verification(policy, ROBOT)


def test_a_record_of_another_robot_of_that_name_is_refused(policy):
    write_record(policy, record(policy))
    lighter = replace(ROBOT, body=replace(ROBOT.body, mass_kg=0.026))
    with pytest.raises(UserError, match=r"is for another version of 'crazyflie': .*`rlstack verify .* --robot my.y`"):
        require_verification(policy, lighter, " --robot my.y")


def test_a_record_that_does_not_say_of_which_robot_it_is_asks_to_verify_again(policy):
    facts = record(policy)
    del facts["robot_sha256"]
    write_record(policy, facts)
    with pytest.raises(UserError, match=r"by an earlier version of rlstack .* file of 'crazyflie': .*`rlstack verify "):
        require_verification(policy, ROBOT)


@pytest.mark.parametrize("one", released(), ids=lambda one: one.name)
def test_a_released_policy_is_proven_on_its_robot_as_it_is_now(one):
    assert require_verification(one.path, load_robot(one.robot))["passed"] is True
    if not load_policy(one.path).contract.envelope:
        pytest.skip("released before policy files had envelopes: deployed by force only")
    assert one.margins
    assert (one.path.parent / "report.html").stat().st_size < 2_000_000
    assert f"rlstack up deploy --policy {one.name}" in (one.path.parent / "README.md").read_text()


@pytest.mark.parametrize("passed", [False, None, "true", 1])
def test_anything_but_passed_is_refused_with_the_figures(policy, passed):
    write_record(policy, record(policy, passed=passed))
    with pytest.raises(
        UserError,
        match=re.escape("did not pass its verification (batch: 81.0% success, mujoco (topics): 50.0% success)"),
    ):
        require_verification(policy, ROBOT)


def test_a_record_that_did_not_pass_says_why(policy):
    why = ["batch: 20 episodes prove too little: at least 100 are asked", "mujoco: too slow"]
    write_record(policy, record(policy, passed=False, reasons=why))
    with pytest.raises(UserError, match=r"\(batch: 20 episodes prove too little: .* are asked; mujoco: too slow\)"):
        require_verification(policy, ROBOT)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"passed": true}'])
def test_an_unreadable_record_is_refused(policy, text):
    record_path(policy).write_text(text)
    with pytest.raises(UserError, match="cannot be read"):
        require_verification(policy, ROBOT)


def test_json_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "folder" / "figures.json"
    write_json(target, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(target, {"a": float("nan")})
    assert json.loads(target.read_text()) == {"a": 1}
    assert [p.name for p in target.parent.iterdir()] == ["figures.json"]


def test_an_unwritable_place_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write"):
        write_json(tmp_path / "file" / "figures.json", {})


RECORDS = sorted((Path(__file__).parent / "records").glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_of_earlier_versions_are_accepted(path, policy):
    """They were written at f6e7e9b, one of each way to verify, by short verifications that did not pass."""
    old = json.loads(path.read_text())
    robot = load_robot(old["robot"])
    mine = {"sha256": file_sha256(policy), "robot_sha256": robot.sha256}
    with pytest.raises(UserError, match=r"did not pass its verification .*prove too little"):
        write_record(policy, {**old, **mine})
        require_verification(policy, robot)
    write_record(policy, {**old, **mine, "passed": True})
    assert require_verification(policy, robot)["backends"] == old["backends"] and only_simulator(old) == ""


def test_there_is_a_record_of_each_way_to_verify():
    assert len(RECORDS) == 6
