"""A tool that a person drags in the browser view, from the handle's events to the teleoperation topics."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import viser

from rlstack.interfaces import topics
from rlstack.nodes.view_hand import ToolHandle
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


class Publishing:
    """Creates publishers as a node of rlstack does."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def publisher(self, kind: Any, topic: str, use: topics.Quality) -> Any:
        return self._node.create_publisher(kind, topic, topics.quality(use))


def test_the_tool_follows_while_it_is_held_and_the_policy_leads_again_afterwards(listener: Listener) -> None:
    tool = np.array([0.5, 0.0, 0.3])
    robot: Any = SimpleNamespace(space="/arm", node="/robots/arm", reach_m=1.0)
    robot.pose_of = lambda link: (tool, np.array([0.0, 0.0, 0.0, 1.0]))
    heard: dict[str, list[Any]] = {
        topic: [] for topic in (topics.TELEOP_TWIST, topics.INTERVENE, topics.TELEOP_GRIPPER)
    }
    for topic, kept in heard.items():
        kind = topics.message_type(topics.TELEOP_TYPES[topic])
        quality = topics.quality("latched" if topic == topics.INTERVENE else "command")
        listener.node.create_subscription(kind, f"/arm/{topic}", kept.append, quality)
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    try:
        hand = ToolHandle(server.scene, Publishing(listener.node), robot, "tool", lambda action: action())
        handle = server.scene.get_handle_by_name("/robots/arm_tool")
        (moved,) = handle._impl_aux.update_cb

        def drag(phase: str, *position: float) -> None:
            target = SimpleNamespace(position=position, wxyz=(1.0, 0.0, 0.0, 0.0))
            asyncio.run(moved(SimpleNamespace(phase=phase, client_id=7, target=target)))

        def last(topic: str) -> Any:
            return heard[topic][-1] if heard[topic] else None

        def leads() -> Any:
            return getattr(last(topics.INTERVENE), "data", None)

        hand.draw(0.0, {7})
        np.testing.assert_allclose(handle.position, tool)
        assert not heard[topics.INTERVENE]  # nobody leads before it is touched
        drag("start", 0.5, 0.0, 0.3)
        drag("update", 0.6, 0.0, 0.3)

        def follows() -> bool:
            hand.draw(0.0, {7})
            return bool(leads()) and heard[topics.TELEOP_TWIST] and last(topics.TELEOP_TWIST).twist.linear.x > 0.3

        listener.until(follows, "a twist towards the handle")
        assert last(topics.TELEOP_TWIST).header.frame_id == "base_link"
        hand.draw(0.0, set())  # the browser is gone
        listener.until(lambda: leads() is False and last(topics.TELEOP_TWIST).twist.linear.x == 0.0, "handing back")
        hand.move_gripper(-1.0, now=1.0)
        hand.draw(1.5, {7})
        listener.until(lambda: heard[topics.TELEOP_GRIPPER] and leads(), "the gripper's motion")
        assert last(topics.TELEOP_GRIPPER).data == -1.0
        hand.draw(2.1, {7})
        listener.until(lambda: last(topics.TELEOP_GRIPPER).data == 0.0 and leads() is False, "its end")
        drag("start", 0.5, 0.0, 0.3)
        listener.until(leads, "the human's lead")
        hand.close()  # the view ends
        listener.until(lambda: leads() is False, "handing back at the end")
    finally:
        server.stop()
