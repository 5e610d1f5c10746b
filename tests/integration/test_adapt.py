"""A Crazyflie that differs from its file, in MuJoCo, is measured, learned for, proven and swapped to in flight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter

from rlstack.identification.motion_model import Edit
from rlstack.identification.robot_file import edited, source_text
from rlstack.interfaces import topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.step_messages import read_file_text
from rlstack.policies import load_policy
from rlstack.policies.record import read_record
from rlstack.policies.released import find_policy
from rlstack.robots import load_robot
from tests.support.ros import Listener, NodeProcess, nodes

pytestmark = [pytest.mark.integration, pytest.mark.learning, pytest.mark.timeout(2000)]

MOST_S = 900.0
"""Longest wait: it takes 30 CPU-s, beside nodes that fly in lock step meanwhile."""


@pytest.mark.parametrize(
    ("load", "motor", "says", "swaps"),
    [
        (1.3, 1.0, "a payload of about 30% of the mass", True),
        (1.6, 1.0, "a payload of about 60% of the mass", False),
        (1.0, 0.8, "motor m1 gives 80% of the others' thrust", True),
    ],
)
def test_a_change_is_adapted_to_in_flight_or_the_present_policy_flies_on(
    load: float, motor: float, says: str, swaps: bool, tmp_path: Path, listener: Listener
) -> None:
    _, text = source_text("crazyflie")
    file = load_robot("crazyflie")
    heavy = tmp_path / "heavy.yaml"
    heavy.write_text(edited(text, [Edit(("body", "mass_kg"), load * file.body.mass_kg, "")]))  # type: ignore[attr-defined]
    origin = load_policy(find_policy("quadrotor_hover"))
    said = listener.hear(topics.ADAPTATION, "latched", depth=100)
    told = listener.hear(topics.POLICY_FILE, "latched", depth=10)
    modes = listener.hear(topics.GUARD_MODE, "latched", depth=100)
    commands = listener.hear(topics.POLICY_PREFIX + topics.ROTOR_COMMAND, "command", depth=200_000)
    odometry = listener.hear(topics.ODOM, depth=200_000)
    pinned = {"policy": origin.path, "policy_sha256": origin.sha256, "robot": "crazyflie", "robot_sha256": file.sha256}
    robot = NodeProcess("robot", lock_step=True, robot=heavy)
    guard = NodeProcess("guard", lock_step=True, auto_arm=True, robot="crazyflie")
    goal = "[0.0, 0.0, 1.0]"
    policy = NodeProcess("policy", lock_step=True, goal_position=goal, require_record=True, **pinned)
    adapt = NodeProcess("adapt", out=tmp_path / "adapted", **pinned)
    with nodes(robot, guard, policy, adapt):
        listener.until(lambda: modes and modes[-1].data == "policy", "the policy's turn", MOST_S)
        weaker = Parameter("rotor_thrust", value=[motor, 1.0, 1.0, 1.0]).to_parameter_msg()
        request = SetParameters.Request(parameters=[weaker])
        assert listener.call(SetParameters, "robot/set_parameters", request).results[0].successful
        last = "Swapped" if swaps else "Not swapped"
        listener.until(lambda: said and said[-1].data.startswith(last), f"'{last}'", MOST_S)
        swapped_ns = stamp_to_ns(odometry[-1].header.stamp)
        listener.until(lambda: stamp_to_ns(odometry[-1].header.stamp) > swapped_ns + 6 * 10**9, "6 s of flight", MOST_S)
    sentences = [message.data for message in said]
    assert any(f"Measured: {says}. Learning" in one for one in sentences)
    assert {message.data for message in modes} <= {"disarmed", "takeoff", "policy"}, "no limit was passed"
    flown = read_file_text(told[-1].data)
    record = read_record(next((tmp_path / "adapted").glob("01/run/policy.onnx")))
    assert record.data["adapted_from"] == origin.sha256 and record.data["passed"] is swaps and not record.doubt
    if not swaps:
        assert flown.policy == str(origin.path) and "failed its proof" in sentences[-1]
        assert record.data["reasons"]
        return
    assert flown.policy == str(record.path.with_name("policy.onnx")) and flown.sha256 == record.data["sha256"]
    stamps = np.array([stamp_to_ns(message.header.stamp) for message in commands])
    assert set(np.diff(stamps)) <= {0, 10_000_000}, "every observation is answered"
    where = odometry[-1].pose.pose.position
    assert np.linalg.norm([where.x, where.y, where.z - 1.0]) < 0.02
