"""The files that a policy node's parameters name: the policy, its robot and its verification record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack.errors import UserError
from rlstack.nodes.robot_parameters import checked_robot
from rlstack.policies import Policy, load_policy, robot_name
from rlstack.policies.record import read_record
from rlstack.robots import RobotSpec


def loaded(parameters: Any) -> tuple[Policy, RobotSpec]:
    """Return the policy, and the robot that it is for.

    Args:
        parameters: The node's.

    Raises:
        UserError: There is no file, or one of the two is refused.
    """
    path, checked = parameters["policy"], parameters["policy_sha256"]
    if not path:
        raise UserError("The policy node needs a policy file: --ros-args -p policy:=PATH.")
    if parameters["robot"]:
        robot = checked_robot(parameters)
    else:
        first = load_policy(path, sha256=checked)
        named = {"robot": robot_name(first.contract, path), "robot_sha256": parameters["robot_sha256"]}
        checked, robot = first.sha256, checked_robot(named)
    return load_policy(path, robot=robot, sha256=checked), robot


def proof_of(policy: Policy, parameters: Any) -> Mapping[str, Any]:
    """Return the verification record of a policy; empty if there is none that is trusted.

    Raises:
        UserError: It is not the one that was checked.
    """
    record, checked = read_record(policy.path), parameters["record_sha256"]
    if checked and record.sha256 != checked:
        raise UserError(
            f"The verification record {record.path} is not the one that was checked: it was replaced since. Start"
            " again, which checks the present one."
        )
    return record.proof_of(policy.sha256)
