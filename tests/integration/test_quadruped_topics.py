"""A quadruped over real topics, robot, guard and policy as processes: it stands, and it is kept standing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from std_srvs.srv import Trigger

from rlstack.interfaces import topics
from rlstack.robots import load_robot
from tests.support.arms import write_posture_policy
from tests.support.ros import Listener, NodeProcess, heights, nodes

pytestmark = pytest.mark.integration


@pytest.fixture
def standing(tmp_path: Path, listener: Listener) -> Iterator[dict[str, NodeProcess]]:
    """Three nodes in lock step, the policy standing for a second."""
    robot: Any = load_robot("go1")
    policy = write_posture_policy(
        *(tmp_path / "stand.onnx", robot, robot.standing),
        task="quadruped_stand",
        inputs=("joint_position", "orientation"),
        rate_hz=50.0,
    )
    odometry = listener.hear(topics.ODOM)
    modes = listener.hear(topics.GUARD_MODE, "latched", depth=10)
    listener.hear(topics.GUARD_INTERVENTIONS, "latched", depth=10)
    listener.hear(topics.JOINT_COMMAND, "command")
    with nodes(
        NodeProcess("robot", robot="go1", lock_step=True),
        NodeProcess(
            "guard", robot="go1", auto_arm=True, lock_step=True, policy_timeout_s=0.5, stand_before_crouching_s=0.5
        ),
        NodeProcess("policy", robot="go1", policy=policy, lock_step=True),
    ) as processes:
        listener.until(lambda: odometry and odometry[-1].header.stamp.sec >= 1, "the policy's standing")
        assert modes[-1].data == "policy" and 0.26 < heights(odometry)[-1] < 0.29
        yield processes


def test_without_the_policy_the_guard_stands_crouches_and_switches_off(
    standing: dict[str, NodeProcess], listener: Listener
) -> None:
    odometry, modes = listener.heard[topics.ODOM], listener.heard[topics.GUARD_MODE]
    standing["policy"].signal(signal.SIGKILL)
    listener.until(lambda: modes[-1].data == "disarmed", "switching off")
    assert [mode.data for mode in modes][-4:] == ["policy", "stand", "crouch", "disarmed"]
    assert heights(odometry)[-1] < 0.12
    assert listener.heard[topics.GUARD_INTERVENTIONS][-1].data == 1


def test_an_emergency_stop_is_off(standing: dict[str, NodeProcess], listener: Listener) -> None:
    modes, commands = listener.heard[topics.GUARD_MODE], listener.heard[topics.JOINT_COMMAND]
    assert len(commands[-1].points[0].positions) == 12
    assert listener.call(Trigger, topics.ESTOP, Trigger.Request()).success
    listener.until(lambda: modes[-1].data == "estop", "the emergency stop")
    listener.until(lambda: not commands[-1].joint_names, "the command that stops the joints")
    assert standing["policy"].process.poll() is None
