from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlstack.nodes.view_goal import GoalHandle

viser = pytest.importorskip("viser")
geometry = pytest.importorskip("geometry_msgs.msg")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    made = viser.ViserServer("127.0.0.1", 0, verbose=False)
    yield made
    made.stop()


class Node:
    """Keeps what is published, and how."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.uses: list[str] = []

    def publisher(self, kind: Any, topic: str, use: str) -> Any:
        self.uses.append(use)
        return SimpleNamespace(publish=self.sent.append)


def pursue(robot: Any, x: float) -> None:
    robot.goal = geometry.PoseStamped()
    robot.goal.pose.position.x, robot.goal.pose.orientation.w = x, 1.0
    robot.goals += 1


def test_a_goal_is_dragged_and_let_go_even_by_a_browser_that_vanishes(server: Any) -> None:
    node, robot = Node(), SimpleNamespace(space="/cf", node="/robots/cf", reach_m=0.1, goals=0, goal=None)
    shown = GoalHandle(server.scene, node, robot, lambda action: action())  # type: ignore[arg-type]
    shown.draw({7})
    pursue(robot, 1.0)
    shown.draw({7})
    handle = server.scene.get_handle_by_name("/robots/cf_goal")
    (moved,) = handle._impl_aux.update_cb

    def drag(phase: str, x: float) -> None:
        handle.position = (x, 0.0, 0.0)
        asyncio.run(moved(SimpleNamespace(phase=phase, client_id=7, target=handle)))

    drag("start", 1.0)
    drag("update", 2.0)
    assert [message.pose.position.x for message in node.sent] == [2.0]
    assert node.uses == ["command"]  # another deployment gets no goal of this one
    pursue(robot, 2.0)
    drag("update", 2.5)
    shown.draw({7})
    np.testing.assert_allclose(handle.position, [2.5, 0.0, 0.0])  # it stays in the hand
    shown.draw({8})
    np.testing.assert_allclose(handle.position, [2.0, 0.0, 0.0])
    drag("start", 2.0)
    drag("end", 3.0)
    assert node.sent[-1].pose.position.x == 3.0
    robot.goals += 1  # refused: the one before is pursued still
    shown.draw({7})
    np.testing.assert_allclose(handle.position, [2.0, 0.0, 0.0])
