"""Which processes lead an arm by hand, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlstack import cli
from rlstack.bringup.teleop import Teleop, teleop_system
from rlstack.errors import UserError
from rlstack.interfaces.teleop_data import ALONE


def processes(**options: Any) -> dict[str, Any]:
    return {process.name: process for process in teleop_system(Teleop(**options)).processes}


def test_the_arm_its_guard_and_its_policy_are_started_where_asked_for(tmp_path: Path) -> None:
    assert processes(only_device=True) == {}
    alone = processes(namespace="left")
    assert alone.keys() == {"teleop_arm"} and alone["teleop_arm"].namespace == "/left"
    both = processes(backend="mujoco", policy=tmp_path / "policy.onnx")
    assert both.keys() == {"robot", "guard", "teleop_arm", "policy"}
    assert {process.namespace for process in both.values()} == {"/panda"}
    assert both["policy"].remappings == (("policy/cmd/joints", ALONE),), "a human stands between policy and guard"
    assert not both["guard"].remappings and not both["teleop_arm"].remappings
    assert both["teleop_arm"].parameters["with_policy"] and not alone["teleop_arm"].parameters["with_policy"]
    assert both["guard"].parameters["auto_arm"]


def test_what_does_not_go_together_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="crazyflie is a quadrotor, and only arms are led by hand"):
        processes(robot="crazyflie")
    with pytest.raises(UserError, match="A policy needs --backend"):
        processes(policy=Path("policy.onnx"))
    with pytest.raises(UserError, match="--only-device starts no arm"):
        processes(only_device=True, backend="mujoco")
    assert cli.main(["teleop", "--robot", "crazyflie"]) == 2
    assert "rlstack: crazyflie is a quadrotor" in capsys.readouterr().err
