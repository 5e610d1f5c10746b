"""A policy node is recorded, and the recording run again: the commands are the same to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage
from tests.bringup.explain.flights import PERIOD_NS, ROBOT
from tests.support.policies import write_hover_policy
from tests.support.ros import Listener

pytestmark = pytest.mark.integration
pytest.importorskip("mcap")


def test_a_recorded_policy_node_is_run_again_to_the_last_bit(listener: Listener, tmp_path: Path) -> None:
    from rlstack.bringup.explain.explanation import explain
    from rlstack.bringup.explain.recorded_run import read_run
    from rlstack.nodes.policy import PolicyNode
    from rlstack.nodes.record import RecordNode

    policy = write_hover_policy(tmp_path / "hover.onnx", ROBOT)
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), "odom", "base_link")
    sender = listener.node.create_publisher(type(odometry.message), "/cf/odom", topics.quality("sensor_out"))
    goals = listener.node.create_publisher(topics.type_of(topics.GOAL), "/cf/goal", topics.quality("latched"))
    recorder = RecordNode({"out": str(tmp_path / "bag")}, namespace="/cf", context=listener.context)
    parameters = {"policy": str(policy), "robot": "crazyflie", "goal_position": [0.0, 0.0, 1.0], "lock_step": True}
    pilot = PolicyNode(overrides=parameters, namespace="/cf", context=listener.context)
    for node in (recorder, pilot):
        listener.executor.add_node(node)
        node.start()
    steps = f"/cf/{topics.POLICY_STEPS}"
    listener.until(lambda: sender.get_subscription_count() == 2, "both listen")
    listener.until(lambda: steps in recorder.counts and "/cf/policy/cmd/rotors" in recorder.counts, "it records")
    facing, still = np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3)
    for k in range(40):
        if k == 20:
            goal = topics.type_of(topics.GOAL)()
            goal.header.frame_id, goal.pose.position.z, goal.pose.orientation.w = "odom", 1.5, 1.0
            goals.publish(goal)
            listener.until(lambda: pilot._loop.seen["goal_position"][2] == 1.5, "it has the goal")
            pilot._loop.restart()
        sender.publish(odometry.fill((k + 1) * PERIOD_NS, np.array([0.01 * k, 0.0, 1.0]), facing, still, still))
        listener.until(lambda k=k: pilot._loop.counts.steps == k + 1, "it steps")
    facts = recorder._facts
    listener.until(lambda: facts._hashes and "/cf/policy" in facts._known, "its hash and parameters are heard")
    pilot._steps.flush()
    listener.until(lambda: recorder.counts["/cf/policy/cmd/rotors"] == 40, "all is recorded")
    listener.spin(0.1)
    for node in (pilot, recorder):
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()
    found = explain(read_run(tmp_path / "bag", policy=policy))
    assert found.rerun.told and found.rerun.identical == found.rerun.compared >= 20
    assert {float(held.values["goal_position"][2]) for held in found.run.held.values()} == {1.0, 1.5}
