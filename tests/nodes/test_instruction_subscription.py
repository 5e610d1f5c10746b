"""A policy that follows instructions, between real topics: it waits for one, and follows another in flight."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.instruction import encoded
from rlstack.interfaces.messages import JointMessage
from rlstack.nodes.policy import PolicyNode
from rlstack.policies import load_policy
from tests.kinds.manipulator.guard_loop import panda
from tests.support.arms import write_posture_policy
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = panda()
REST = np.array([drive.rest for drive in ROBOT.drives])
COMMANDS = topics.POLICY_PREFIX + topics.JOINT_COMMAND
WEIGHT = 1e-5


def target(text: str) -> float:
    return float(REST[0] + WEIGHT * encoded(text).sum())


def test_a_policy_waits_for_its_instruction_and_follows_the_newest(listener: Listener, tmp_path: Path) -> None:
    names, words = ("joint_position", "instruction"), ("push", "the", "red", "blue", "block")
    path = write_posture_policy(
        tmp_path / "told.onnx", ROBOT, REST, inputs=names, weights={"instruction": WEIGHT}, words=words
    )
    policy = load_policy(path, robot=ROBOT)
    node = PolicyNode(policy, {"topic_timeout_s": 0.2, "instruction": "x" * 129}, context=listener.context)
    with pytest.raises(UserError, match="instruction: an instruction of 129 bytes is not allowed"):
        node.start()
    node.destroy_node()
    node = PolicyNode(policy, {"topic_timeout_s": 1.5}, context=listener.context)
    listener.executor.add_node(node)
    kind, states = topics.type_of(topics.INSTRUCTION), topics.type_of(topics.JOINT_STATES)
    speak = listener.node.create_publisher(kind, topics.INSTRUCTION, topics.quality("command"))
    joints = JointMessage(states(), [drive.name for drive in ROBOT.drives])
    moving = listener.node.create_publisher(states, topics.JOINT_STATES, topics.quality("sensor_out"))
    listener.node.create_timer(0.02, lambda: moving.publish(joints.fill(time.time_ns(), REST, np.zeros(len(REST)))))
    commands, warned = listener.hear(COMMANDS, "command"), []
    followed = listener.hear(topics.INSTRUCTION_ACTIVE, "latched", depth=10)
    node.warn = lambda sentence, key="": warned.append(sentence)  # type: ignore[method-assign]

    def say(text: str) -> None:
        listener.until(lambda: speak.get_subscription_count() > 0, "a listener")
        speak.publish(kind(data=text))

    def commanded() -> float:
        return commands[-1].points[0].positions[0] if commands else np.nan

    try:
        node.start()
        listener.spin(1.7)  # longer than topic_timeout_s: whoever instructs it may take their time
        assert not commands and node.status()[0] == (
            'waiting for an instruction: --instruction "push the red blue block" or rlstack agent "arm, push the red'
            ' blue block"'
        )
        say("...")
        listener.until(lambda: "refused" in node.status()[0], "a refusal")
        assert "without words" in warned[-1] and not commands
        say("push the rde block")
        listener.until(lambda: abs(commanded() - target("push the red block")) < 1e-6, "commands")
        assert warned[-1].endswith("the policy does not know the word 'rde', and takes it for 'red'.")
        say("push the blue block")
        listener.until(lambda: abs(commanded() - target("push the blue block")) < 1e-6, "the new one")
        assert node.status() == ("", node.status()[1]) and node.status()[1]["instruction"] == "push the blue block"
        listener.until(lambda: len(followed) == 3, "what it follows")
        assert [message.data for message in followed] == ["", "push the red block", "push the blue block"]
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()
