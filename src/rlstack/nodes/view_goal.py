"""A robot's goal in the browser view: a handle that a person drags."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rlstack.interfaces import topics
from rlstack.nodes.viewed_robot import ViewedRobot
from rlstack.view.shapes import wxyz

_SCALE = 2.0
"""Size of the handle, times the robot's reach."""
_APART_S = 0.1
"""Least time between goals while the handle is dragged."""


class GoalHandle:
    """Shows the goal that a robot pursues once there is one, and sends another where the handle is dragged to.

    Args:
        scene: viser's ``SceneApi``.
        node: The node that sends goals, :class:`rlstack.nodes.runtime.ManagedNode`.
        robot: The robot.
        later: Has a function called in the node's thread.
    """

    def __init__(self, scene: Any, node: Any, robot: ViewedRobot, later: Callable[[Callable[[], None]], None]) -> None:
        self._scene, self._node, self._robot, self._later = scene, node, robot, later
        self._handle: Any = None
        self._publisher: Any = None
        self._seen = 0
        self._held_by: int | None = None
        self._sent_at = 0.0

    def draw(self, browsers: set[int]) -> None:
        """Show another goal, unless the handle is held by one of the ``browsers``."""
        if self._held_by is not None and self._held_by not in browsers:
            self._held_by, self._seen = None, -1  # it went without letting go
        if self._robot.goals == self._seen or self._held_by is not None:
            return
        self._seen = self._robot.goals
        pose = self._robot.goal.pose
        p, q = pose.position, pose.orientation
        position, orientation = np.array([p.x, p.y, p.z]), wxyz((q.x, q.y, q.z, q.w))
        if self._handle is None:
            self._handle = self._make(position, orientation)
        else:
            self._handle.position, self._handle.wxyz = position, orientation

    def _make(self, position: Any, orientation: Any) -> Any:
        where = {"position": position, "wxyz": orientation}
        name = f"{self._robot.node}_goal"
        reach, how = self._robot.reach_m, {"disable_rotations": True, "depth_test": False, "opacity": 0.7}
        handle = self._scene.add_transform_controls(name, scale=_SCALE * reach, line_width=2.0, **how, **where)
        self._scene.add_icosphere(f"{name}/place", radius=0.15 * reach, color=(242, 142, 43), opacity=0.8)

        async def on_update(event: Any) -> None:  # async: phases stay in their order
            place = np.array(event.target.position), np.array(event.target.wxyz)
            self._later(partial(self._on_drag, event.phase, event.client_id, *place))

        handle.on_update(on_update)
        topic = f"{self._robot.space.rstrip('/')}/{topics.GOAL}"
        # not latched: the view may outlive the robot's nodes, and the next ones are to get no goal of the last
        self._publisher = self._node.publisher(topics.type_of(topics.GOAL), topic, "command")
        return handle

    def _on_drag(self, phase: str, browser: int, position: Any, orientation: Any) -> None:
        self._held_by = None if phase == "end" else browser
        now = time.monotonic()
        if phase == "start" or (phase == "update" and now - self._sent_at < _APART_S):
            return
        self._sent_at = now
        message = topics.type_of(topics.GOAL)()
        message.header.frame_id = self._robot.goal.header.frame_id
        p, q = message.pose.position, message.pose.orientation
        p.x, p.y, p.z = position.tolist()
        q.w, q.x, q.y, q.z = orientation.tolist()
        self._publisher.publish(message)
