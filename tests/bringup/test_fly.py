"""What `rlstack fly` says to try next; the whole of it is what `make fly` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.bringup.fly import _next_commands

POLICY = Path("runs/x-001/policy.onnx")


@pytest.mark.parametrize("robot", ["", " --robot racer"])
def test_a_policy_that_passed_is_deployed_as_it_is(robot: str) -> None:
    said = _next_commands("quadrotor_hover", POLICY, robot, True)
    assert f"rlstack up deploy --policy {POLICY}{robot} " in said and "--force" not in said
    assert f"rlstack verify {POLICY}{robot} " in said and "rlstack train quadrotor_hover --help" in said


def test_one_that_did_not_is_deployed_by_force_and_that_is_said() -> None:
    said = _next_commands("quadrotor_hover", POLICY, "", False)
    assert f"rlstack up deploy --policy {POLICY} --force " in said and "although it has not passed" in said
