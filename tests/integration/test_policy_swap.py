from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.step_messages import PolicyFile, read_file_text
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.policies import write_hover_policy
from tests.support.ros import Listener, NodeProcess, nodes

pytestmark = pytest.mark.integration


def parameters(**values: Any) -> Any:
    from rcl_interfaces.srv import SetParametersAtomically
    from rclpy.parameter import Parameter

    named = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
    return (
        SetParametersAtomically,
        "policy/set_parameters_atomically",
        SetParametersAtomically.Request(parameters=named),
    )


def test_another_file_takes_over_between_two_steps_and_a_wrong_one_does_not(
    hover_policy: Path, tmp_path: Path, listener: Listener
) -> None:
    good = write_hover_policy(tmp_path / "good.onnx", load_quadrotor("crazyflie"))
    other = write_hover_policy(tmp_path / "other.onnx", load_quadrotor("x500"))
    corrupt = tmp_path / "corrupt.onnx"
    corrupt.write_bytes(good.read_bytes()[:-300])
    digest = hashlib.sha256(good.read_bytes()).hexdigest()
    commands = listener.hear(topics.POLICY_PREFIX + topics.ROTOR_COMMAND, "command", depth=5000)
    modes = listener.hear(topics.GUARD_MODE, "latched", depth=10)
    odometry = listener.hear(topics.ODOM, depth=5000)
    told = listener.hear(topics.POLICY_FILE, "latched", depth=10)

    def known() -> PolicyFile:
        return read_file_text(told[-1].data)

    def ask(**values: Any) -> Any:
        return listener.call(*parameters(**values)).result

    robot, guard = NodeProcess("robot", lock_step=True), NodeProcess("guard", lock_step=True, auto_arm=True)
    flown = NodeProcess("policy", policy=hover_policy, goal_position="[0.0, 0.0, 1.0]", lock_step=True)
    with nodes(robot, guard, flown):
        listener.until(lambda: odometry and odometry[-1].header.stamp.sec >= 4, "the hover")
        assert known().after_step == 0
        assert ask(policy=str(other)).successful
        listener.until(lambda: known().refused, "the refusal of the other robot's file")
        assert "is a policy for the robot 'x500'" in known().why
        assert ask(policy=str(corrupt)).successful
        listener.until(lambda: known().refused == str(corrupt), "the refusal of the corrupt file")
        assert ask(policy=str(good), policy_sha256="0" * 64).successful
        listener.until(lambda: known().refused == str(good), "the refusal of the hash")
        assert known().policy == str(hover_policy)
        assert ask(policy=str(good), policy_sha256=digest).successful
        listener.until(lambda: known().policy == str(good), "the other file")
        taken = known()
        stamp = commands[-1].header.stamp.sec
        listener.until(lambda: commands[-1].header.stamp.sec > stamp + 1, "a second of flight with it")
    assert taken.sha256 == digest and taken.after_step > 400
    stamps = np.array([stamp_to_ns(message.header.stamp) for message in commands])
    assert set(np.diff(stamps)) <= {0, 10_000_000}, "every observation is answered"  # some are asked for twice
    assert modes[-1].data == "policy"
    where = odometry[-1].pose.pose.position
    assert np.linalg.norm([where.x, where.y, where.z - 1.0]) < 0.05
