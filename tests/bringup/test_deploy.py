"""`rlstack up deploy` ends with one sentence and status 2, and starts nothing, if the proof is not of this policy."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack import cli
from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.verification_check import file_sha256, record_path
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.policies.signing import KEY_VARIABLE
from rlstack.robots import load_robot
from tests.support.arms import write_posture_policy
from tests.support.deployed import Up
from tests.support.policies import write_hover_policy
from tests.support.records import write_record

ROBOT: Any = load_robot("crazyflie")


def edit(policy: Path, **changes: Any) -> None:
    record = record_path(policy)
    write_json(record, json.loads(record.read_text()) | changes)


def exported_again(policy: Path) -> None:
    write_hover_policy(policy, ROBOT, 50.0)


def unsigned(policy: Path) -> None:
    data = json.loads(record_path(policy).read_text())
    del data["signature"]
    write_json(record_path(policy), data)


def signed_by_another(policy: Path) -> None:
    Path(policy.with_name("key")).write_text(secrets.token_hex(32))


SWAPS: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing there": (lambda policy: record_path(policy).unlink(), "has not been verified"),
    "for other bytes": (exported_again, "is for another policy file (SHA-256"),
    "unsigned": (unsigned, "is unsigned, so nobody vouches for it"),
    "signed with another key": (signed_by_another, "which is not yours"),
    "a failure made a pass": (lambda policy: edit(policy, backends={}), "was changed after it was signed"),
    "for another robot": (lambda policy: edit(policy, robot="racer"), "is for 'racer', not for 'crazyflie'"),
    "for another robot file": (lambda policy: edit(policy, robot_sha256="0" * 64), "is for another version of"),
    "no JSON": (lambda policy: void(record_path(policy).write_text('{"passed": tr')), "cannot be read"),
}


def void(written: int) -> None:
    """Ignore what a write returns."""


@pytest.mark.parametrize("name", SWAPS)
def test_a_proof_of_something_else_is_refused_on_the_console(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    monkeypatch.setenv(KEY_VARIABLE, str(key))
    policy = write_hover_policy(tmp_path / "policy.onnx", ROBOT)
    facts = {"sha256": file_sha256(policy), "robot": "crazyflie", "robot_sha256": ROBOT.sha256, "passed": True}
    write_record(policy, {**facts, "backends": {"mujoco": {"success": 1.0, "flown_in": "mujoco (topics)"}}})
    swap, sentence = SWAPS[name]
    swap(policy)
    assert cli.main(["up", "deploy", "--policy", str(policy), "--seconds", "1"]) == 2
    shown = capfd.readouterr()
    assert shown.err.startswith("rlstack: ") and sentence in shown.err and "--force" in shown.err
    assert "Traceback" not in shown.err and shown.out == ""


def told(path: Path, *inputs: str) -> Path:
    """Write a policy of an arm for a sentence and more inputs."""
    arm: Any = load_robot("panda")
    rest, names = np.array([drive.rest for drive in arm.drives]), ("joint_position", "instruction", *inputs)
    return write_posture_policy(path, arm, rest, inputs=names, words=("push", "the", "red", "block"))


def test_a_goal_is_for_a_policy_that_goes_to_one(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        checked_deployment(told(tmp_path / "told.onnx"), "panda", force=True, goal=(0.2, 0.0, 0.1))
    why = "goes to no goal: leave the goal out, and say with the instruction what it is to do."
    assert str(refused.value) == f"The policy {tmp_path / 'told.onnx'} {why}"
    both = told(tmp_path / "both.onnx", "goal_position")
    system = checked_deployment(both, "panda", force=True, goal=(0.4, 0.0, 0.4), instruction="push the block")
    assert system.pursues_goals
    assert checked_deployment(robot="turtlebot3_burger", driver="dwa", goal=(1.0, 0.0, 0.0)).pursues_goals


@pytest.mark.slow  # a whole deployment
@pytest.mark.integration
def test_a_policy_that_has_no_sentence_yet_says_so_and_how_to_give_it_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    policy = str(told(tmp_path / "told.onnx"))
    with Up("deploy", "--policy", policy, "--robot", "panda", "--force", "--no-view") as arm:
        arm.until("s  disarmed  waiting for an instruction\n")
        how = '--instruction "push the red block" or rlstack agent "arm, push the red block"'
        assert f"waiting for an instruction: {how}\n" in arm.seen and "NavigateToPose" not in arm.seen
        assert cli.main(["agent", "arm, push the red block for 1 second"]) == 0, capfd.readouterr()
        arm.until("s  policy\n")
        assert "instruction: push the red block\n" in arm.seen
        arm.interrupt(arm.nodes())
