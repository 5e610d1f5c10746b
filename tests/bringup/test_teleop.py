"""Which processes lead an arm by hand, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack import cli
from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.system import deploy_system
from rlstack.bringup.teleop import Teleop, teleop_system, with_human
from rlstack.errors import UserError
from rlstack.interfaces.topics import POLICY_ALONE
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from tests.support.arms import write_posture_policy

PANDA = load_robot("panda")
assert isinstance(PANDA, Manipulator)


def processes(**options: Any) -> dict[str, Any]:
    return {process.name: process for process in teleop_system(Teleop(**options)).processes}


def test_the_arm_its_guard_and_its_policy_are_started_where_asked_for(tmp_path: Path) -> None:
    assert processes(only_device=True) == {}
    alone = processes(namespace="left")
    assert alone.keys() == {"teleop_arm"} and alone["teleop_arm"].namespace == "/left"
    policy = write_posture_policy(tmp_path / "policy.onnx", PANDA, np.array([drive.rest for drive in PANDA.drives]))
    both = processes(backend="mujoco", policy=policy, goal=(0.5, 0.1, 0.3))
    assert both.keys() == {"robot", "guard", "teleop_arm", "policy"}
    assert {process.namespace for process in both.values()} == {"/panda"}
    assert both["policy"].remappings == (("policy/cmd/joints", POLICY_ALONE),), "a human is between policy and guard"
    assert not both["guard"].remappings and not both["teleop_arm"].remappings
    assert both["teleop_arm"].parameters["with_policy"] and not alone["teleop_arm"].parameters["with_policy"]
    real = processes(backend="topics")
    assert real.keys() == {"guard", "teleop_arm"} and {process.namespace for process in real.values()} == {"/"}
    assert not real["guard"].parameters["auto_arm"] and not real["teleop_arm"].parameters["with_policy"]
    given = {"remap": ("cmd/joints:=controller/commands",), "cmd_joints_type": "Float64MultiArray"}
    named = processes(backend="topics", **given)
    assert {process.remappings for process in named.values()} == {(("cmd/joints", "controller/commands"),)}
    assert named["guard"].parameters["cmd_joints_type"] == "Float64MultiArray"
    assert both["guard"].parameters["auto_arm"] and both["policy"].parameters["goal_position"] == (0.5, 0.1, 0.3)


def test_a_policy_that_its_node_would_refuse_is_refused_before_anything_starts(tmp_path: Path) -> None:
    policy = write_posture_policy(tmp_path / "policy.onnx", PANDA, np.array([drive.rest for drive in PANDA.drives]))
    with pytest.raises(UserError, match="is a policy for the robot 'panda', not for 'so100'"):
        processes(robot="so100", backend="mujoco", policy=policy)
    with pytest.raises(UserError, match=r"nothing\.onnx"):
        processes(backend="mujoco", policy=tmp_path / "nothing.onnx")


def test_a_deployment_lets_a_human_between_each_policy_and_its_guard() -> None:
    system = deploy_system("policy.onnx", "panda", count=2, remap=["joint_states:=arm/joint_states"])
    human = {process.name: process for process in with_human(system, load_robot("panda")).processes}
    assert [name for name in human if "teleop" in name] == ["panda1.teleop_arm", "panda2.teleop_arm"]
    one = human["panda2.teleop_arm"]
    assert one.namespace == human["panda2.policy"].namespace == "/panda2"
    assert one.remappings == (("joint_states", "arm/joint_states"),)
    assert human["panda2.policy"].remappings == (*one.remappings, ("policy/cmd/joints", POLICY_ALONE))


def test_what_does_not_go_together_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="crazyflie is a quadrotor, but only arms can be guided by hand"):
        processes(robot="crazyflie")
    several = "panda_pair has 2 arms, and teleoperation moves one: use panda"
    for options in ({}, {"only_device": True}, {"backend": "mujoco"}):
        with pytest.raises(UserError, match=several):
            processes(robot="panda_pair", **options)
    with pytest.raises(UserError, match=several):
        with_human(deploy_system("policy.onnx", "panda"), load_robot("panda_pair"))
    with pytest.raises(UserError, match=r"needs a simulator as --backend.*rlstack up deploy --teleop --robot panda"):
        processes(policy=Path("policy.onnx"))
    with pytest.raises(UserError, match="--world and --goal apply only to a policy"):
        processes(backend="mujoco", goal=(0.5, 0.0, 0.3))
    with pytest.raises(UserError, match="teleop is for arms, and crazyflie is a quadrotor"):
        checked_deployment("policy.onnx", teleop=True, force=True)
    with pytest.raises(UserError, match="teleop and lock step exclude each other"):
        checked_deployment("policy.onnx", "panda", teleop=True, force=True, lock_step=True)
    for option in ({"remap": ("cmd/joints:=a",)}, {"cmd_joints_type": "Float64MultiArray"}):
        with pytest.raises(UserError, match=r"are for a real arm's driver: give --backend topics as well"):
            processes(backend="mujoco", **option)
    with pytest.raises(UserError, match="--only-device starts no arm"):
        processes(only_device=True, backend="mujoco")
    assert cli.main(["teleop", "--robot", "crazyflie"]) == 2
    assert "rlstack: crazyflie is a quadrotor" in capsys.readouterr().err
