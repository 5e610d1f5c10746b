from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.kinds.manipulator.topics import ManipulatorTopics
from rlstack.kinds.wheeled_base.topics import WheeledBaseTopics
from rlstack.nodes.goal_topics import GoalPoint, GoalTopics, has_goal, pursued
from rlstack.robots import load_robot

S = 1_000_000_000


class Recorder:
    """In place of a node: keeps what is published."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def publisher(self, kind: Any, topic: str, use: str) -> Any:
        said = self.said

        class Publisher:
            def publish(self, message: Any) -> None:
                said.append((topic, message))

        return Publisher()

    def take(self) -> dict[str, Any]:
        """Return the newest message by topic since the last call."""
        newest = dict(self.said)
        self.said.clear()
        return newest


def at(x: float, goal: float = 1.0) -> dict[str, np.ndarray]:
    return {"position": np.array([x, 0.0, 0.0]), "goal_position": np.array([goal, 0.0, 0.0])}


def test_a_goal_is_published_once_and_reached_after_half_a_second_within_the_tolerance() -> None:
    node = Recorder()
    goals = GoalTopics(node, GoalPoint())
    goals.publish(1 * S, at(0.0))
    first = node.take()
    assert first[topics.GOAL_ACTIVE].pose.position.x == 1.0 and first[topics.GOAL_ACTIVE].header.frame_id == "odom"
    assert first[topics.GOAL_ACTIVE].header.stamp.sec == 1
    assert first[topics.GOAL_DISTANCE].data == 1.0 and first[topics.GOAL_REACHED].data is False
    goals.publish(1 * S, at(0.0))
    assert node.take() == {}, "no new observation was answered"
    goals.publish(2 * S, at(0.95))
    assert set(node.take()) == {topics.GOAL_DISTANCE}
    goals.publish(2 * S + S // 4, at(0.95))
    assert topics.GOAL_REACHED not in node.take()
    goals.publish(2 * S + S // 2, at(0.95))
    assert node.take()[topics.GOAL_REACHED].data is True
    goals.publish(3 * S, at(0.8))
    assert node.take()[topics.GOAL_REACHED].data is False


def test_a_goal_that_is_sent_again_is_published_again() -> None:
    node = Recorder()
    goals = GoalTopics(node, GoalPoint())
    goals.publish(1 * S, at(1.0))
    goals.publish(2 * S, at(1.0))
    assert node.take()[topics.GOAL_REACHED].data is True
    goals.taken()
    goals.publish(3 * S, at(1.0))
    again = node.take()
    assert again[topics.GOAL_ACTIVE].header.stamp.sec == 3 and again[topics.GOAL_REACHED].data is False


def test_a_planner_says_itself_that_it_has_arrived() -> None:
    node = Recorder()
    goals = GoalTopics(node, GoalPoint())
    goals.publish(1 * S, at(0.0), arrived=True)
    assert node.take()[topics.GOAL_REACHED].data is True


def test_of_a_path_the_point_that_is_due_is_pursued() -> None:
    path = {
        "path_time": np.array([-1.0, 1.0, 3.0]),
        "path_position": np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [2.0, 2.0, 1.0]]),
        "path_orientation": np.array([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
    }
    assert has_goal(path) and not has_goal(["position"])
    found = pursued(path)
    assert found is not None
    assert found[0].tolist() == [1.0, 0.0, 1.0] and found[1].tolist() == [0.0, 0.0, 0.0, 1.0]
    late = pursued({**path, "path_time": path["path_time"] - 10.0})
    assert late is not None and late[0].tolist() == [2.0, 2.0, 1.0]
    assert pursued({"position": np.zeros(3)}) is None


def test_of_an_arm_the_tool_or_the_object_reaches_the_goal_and_of_a_base_its_place_on_the_floor() -> None:
    panda = load_robot("panda")
    tool = ManipulatorTopics.goal_point(panda, ["joint_position"])
    joints = np.array([drive.rest for drive in panda.drives])
    place = tool.position({"joint_position": joints})
    assert place is not None and 0.2 < np.linalg.norm(place) < 1.0
    assert tool.position({}) is None
    box = ManipulatorTopics.goal_point(panda, ["joint_position", "object_position"])
    assert box.position({"object_position": np.ones(3)}) == pytest.approx(np.ones(3))
    assert WheeledBaseTopics.goal_point(load_robot("turtlebot3_burger"), []).axes == 2
