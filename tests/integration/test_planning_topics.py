"""A policy that takes more than two control periods to plan a chunk, over topics."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import JointMessage, stamp_to_ns
from rlstack.nodes.policy import PolicyNode
from rlstack.policies.planning import PlanningPolicy
from rlstack.robots import load_robot
from tests.support.planners import write_planning_policy
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

PERIOD_NS = 50_000_000
SLOW_S = 0.12


def delayed(step: Any) -> Any:
    def slow(inputs: Any) -> Any:
        time.sleep(SLOW_S)
        return step(inputs)

    return slow


def test_a_slow_policy_sends_a_command_in_every_period(listener: Listener, tmp_path: Path) -> None:
    robot = load_robot("panda")
    path = write_planning_policy(tmp_path / "policy.onnx", robot, 8)
    overrides = {"policy": str(path), "goal_position": [0.5, 0.1, 0.3]}
    node = PolicyNode(overrides=overrides, namespace="/panda", context=listener.context)
    rest = np.array([drive.rest for drive in robot.drives])
    message = JointMessage(topics.type_of(topics.JOINT_STATES)(), [drive.name for drive in robot.drives])
    states = listener.node.create_publisher(
        topics.type_of(topics.JOINT_STATES), f"/panda/{topics.JOINT_STATES}", topics.quality("sensor_out")
    )
    commands = listener.hear(topics.POLICY_PREFIX + topics.JOINT_COMMAND, "command", robot="panda")
    stamps = count(10_000_000, 10_000_000)
    listener.executor.add_node(node)
    try:
        node.start()
        planning = node._policy
        assert isinstance(planning, PlanningPolicy)
        planning._plan.step = delayed(planning._plan.step)  # type: ignore[method-assign]
        listener.node.create_timer(0.01, lambda: states.publish(message.fill(next(stamps), rest, np.zeros(9))))
        listener.until(lambda: planning.counts.plans >= 2, "the first plans")
        began, late = len(commands), planning.counts.late
        listener.until(lambda: len(commands) >= began + 16, "commands")
        said = np.array([stamp_to_ns(one.header.stamp) for one in commands[began:]])
        # one in every period, though planning takes more than two; a busy machine may miss one
        assert said[-1] - said[0] <= 1.2 * PERIOD_NS * (len(said) - 1)
        assert planning.counts.late <= late + 1 and node.status()[1]["planning ms"] >= 1e3 * SLOW_S
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()
