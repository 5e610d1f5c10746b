"""A policy that sees, between real topics: it acts on its camera's newest picture, and on nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.image_messages import ImageMessage
from rlstack.interfaces.messages import JointMessage, stamp_to_ns
from rlstack.nodes.policy import PolicyNode
from rlstack.policies import load_policy
from tests.kinds.manipulator.guard_loop import panda
from tests.support.arms import write_posture_policy
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = panda()
REST = np.array([drive.rest for drive in ROBOT.drives])
COMMANDS = topics.POLICY_PREFIX + topics.JOINT_COMMAND


class Cameraman:
    """Publishes joint states at 50 Hz and, of the size that is wanted, pictures at 25 Hz."""

    def __init__(self, listener: Listener) -> None:
        self.pixels, self.last_ns, self._count = 0, 0, 0
        image, quality = topics.message_type("sensor_msgs/msg/Image"), topics.quality("sensor_out")
        self._joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), [drive.name for drive in ROBOT.drives])
        self._picture = ImageMessage(image(), "wrist_optical_frame", "bgr8")
        node = listener.node
        self._joints_out = node.create_publisher(topics.type_of(topics.JOINT_STATES), topics.JOINT_STATES, quality)
        self._picture_out = node.create_publisher(image, "wrist/image_raw", quality)
        node.create_timer(0.02, self._tick)

    def _tick(self) -> None:
        self._count += 1
        now = time.time_ns()
        if self.pixels and self._count % 2:
            self.last_ns = now
            self._picture_out.publish(self._picture.fill(now, np.zeros((self.pixels, self.pixels, 3), dtype=np.uint8)))
        self._joints_out.publish(self._joints.fill(now, REST, np.zeros(len(REST))))


def test_a_policy_acts_on_its_cameras_pictures_while_they_are_new(listener: Listener, tmp_path: Path) -> None:
    names = ("joint_position", "goal_position", "wrist_image", "wrist_image_age")
    path = write_posture_policy(tmp_path / "looking.onnx", ROBOT, REST, inputs=names)
    given = {"goal_position": (0.5, 0.0, 0.3), "topic_timeout_s": 3600.0}
    node = PolicyNode(load_policy(path, robot=ROBOT), given, context=listener.context)
    listener.executor.add_node(node)
    camera, commands = Cameraman(listener), listener.hear(COMMANDS, "command")
    try:
        node.start()
        camera.pixels = 96
        listener.until(lambda: node.status()[1]["refused"] > 2, "refusals")
        said, figures = node.status()
        assert said == "waiting for wrist/image_raw" and not commands
        assert figures["last refusal"] == "wrist/image_raw: an image of 96 x 96 pixels is not 84 x 84"

        camera.pixels = 84
        listener.until(lambda: len(commands) > 5, "commands")

        camera.pixels = 0
        stale = node.status()[1]["stale"]
        listener.until(lambda: node.status()[1]["stale"] > stale + 5, "a policy that stops")
        said = node.status()[0]
        assert said.startswith("wrist/image_raw is ") and said.endswith(" ms off: no command")
        assert 0 <= stamp_to_ns(commands[-1].header.stamp) - camera.last_ns <= 250_000_000

        camera.pixels, count = 84, len(commands)
        listener.until(lambda: len(commands) > count + 3, "commands again")
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()
