"""Publish the goals and paths of a scenario's episodes, and wait for their delivery."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces import topics
from rlstack.interfaces.instruction import decoded
from rlstack.interfaces.path_messages import path_message
from rlstack.robots import frames
from rlstack.tasks.quadrotor.paths import Paths

DELIVERED_S = 5.0
"""Time limit for a goal or a path to reach the policy node; a node that has ended is noticed afterwards."""


class Goals(Protocol):
    """Goals of N episodes, such as a scenario's."""

    @property
    def goal_position(self) -> NDArray[np.float64]:
        """(N, 3) m."""

    @property
    def goal_yaw(self) -> NDArray[np.float64]:
        """(N,) rad."""

    @property
    def path(self) -> Paths | None:
        """Paths to follow; None: the goals are static."""


class GoalPublisher:
    """Publishes ``goal`` and, if the scenario has paths, ``goal_path``; the first path stays at the first goal.

    Goals that sentences describe are published as such, on ``instruction``, and not as poses.

    It is the only source of goals in a verification.

    Args:
        node: The robot node.
        scenario: N episodes.
    """

    def __init__(self, node: Any, scenario: Goals) -> None:
        self._scenario = scenario
        self._said = [decoded(text) for text in getattr(scenario, "instruction", ())]
        self._orientation = frames.from_yaw(scenario.goal_yaw)
        self._goal, self._path, self._instruction = (
            node.create_publisher(topics.type_of(topic), topic, topics.quality("latched"))
            for topic in (topics.GOAL, topics.GOAL_PATH, topics.INSTRUCTION)
        )
        self.send_goal(0)
        if scenario.path is not None:
            stay, turn = np.tile(scenario.goal_position[0], (2, 1)), np.tile(self._orientation[0], (2, 1))
            self._path.publish(path_message(np.array([0.0, 1.0]), stay, turn))

    def send_goal(self, i: int) -> None:
        """Publish the goal of episode ``i`` if it differs from the previous episode's, or its sentence."""
        if self._said:
            sentence = topics.type_of(topics.INSTRUCTION)(data=self._said[i])
            self._deliver(self._instruction, sentence)
            return
        position, orientation = self._scenario.goal_position, self._orientation
        if i > 0 and all(np.array_equal(of[i], of[i - 1]) for of in (position, orientation)):
            return
        message = topics.type_of(topics.GOAL)()
        message.header.frame_id = topics.WORLD_FRAME
        p, q = message.pose.position, message.pose.orientation
        p.x, p.y, p.z = map(float, position[i])
        q.x, q.y, q.z, q.w = map(float, orientation[i])
        self._deliver(self._goal, message)

    def send_path(self, i: int, start_ns: int) -> None:
        """Publish the path of episode ``i``, which begins at the stamp ``start_ns``."""
        path = self._scenario.path
        if path is not None:
            turns = frames.from_yaw(path.yaw[i])
            self._deliver(self._path, path_message(path.time_s[i], path.position[i], turns, start_ns=start_ns))

    def _deliver(self, publisher: Any, message: Any) -> None:
        """Publish and wait for delivery to every subscriber: the order between topics is not guaranteed."""
        from rclpy.duration import Duration

        publisher.publish(message)
        publisher.wait_for_all_acked(Duration(seconds=DELIVERED_S))
