"""A handle on an arm's tool in the browser view: a person drags it and the arm follows, as by a teleop device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.nodes.viewed_robot import ViewedRobot
from rlstack.robots import frames, load_robot, robot_names
from rlstack.view.shapes import wxyz

_GAIN = 4.0
"""Speed of the tool, 1/s, times how far the handle is from it; the teleoperation node limits it."""
_SCALE = 0.15
"""Size of the handle, times the arm's reach."""
_GRIPPER_S = 1.0
"""How long a click moves the gripper."""


class ToolHandle:
    """Moves an arm's tool by ``teleop/twist``, and says on ``teleop/intervene`` that a human leads while it does.

    Args:
        scene: viser's ``SceneApi``.
        node: Publishes, :class:`rlstack.nodes.runtime.ManagedNode`.
        robot: The arm.
        link: Its tool's link.
        later: Has a function called in the node's thread.
    """

    def __init__(
        self, scene: Any, node: Any, robot: ViewedRobot, link: str, later: Callable[[Callable[[], None]], None]
    ) -> None:
        self._robot, self._link = robot, link
        self._held_by: int | None = None
        self._wanted: tuple[Array, Array] | None = None
        self._gripper = (0.0, 0.0)

        def publisher(topic: str, use: topics.Quality) -> Any:
            kind = topics.message_type(topics.TELEOP_TYPES[topic])
            self._kinds[topic] = kind
            return node.publisher(kind, f"{robot.space.rstrip('/')}/{topic}", use)

        self._kinds: dict[str, Any] = {}
        self._twists = publisher(topics.TELEOP_TWIST, "command")
        self._grips = publisher(topics.TELEOP_GRIPPER, "command")
        self._interventions = publisher(topics.INTERVENE, "latched")
        name, reach = f"{robot.node}_tool", robot.reach_m
        self._handle = scene.add_transform_controls(name, scale=_SCALE * reach, depth_test=False, opacity=0.8)

        async def on_update(event: Any) -> None:  # async: phases stay in their order
            pose = np.array(event.target.position), np.array(event.target.wxyz)
            later(partial(self._on_drag, event.phase, event.client_id, *pose))

        self._handle.on_update(on_update)

    def move_gripper(self, direction: float, now: float) -> None:
        """Open (1) or close (-1) the gripper for a while."""
        self._gripper = (direction, now + _GRIPPER_S)
        self._lead(True)

    def draw(self, now: float, browsers: set[int]) -> None:
        """Move the tool towards the handle while it is held by one of the ``browsers``, else the handle to the tool."""
        tool = self._robot.pose_of(self._link)
        if tool is None:
            return
        direction, until = self._gripper
        if direction:
            grip = direction if now < until else 0.0
            self._grips.publish(self._kinds[topics.TELEOP_GRIPPER](data=grip))
            if not grip:
                self._gripper = (0.0, 0.0)
                self._lead(self._held_by is not None)
        if self._held_by is not None and self._held_by not in browsers:
            self._release()
        if self._held_by is None or self._wanted is None:
            self._handle.position, self._handle.wxyz = tool[0], wxyz(tool[1])
            return
        position, orientation = self._wanted
        self._publish(_GAIN * (position - tool[0]), _GAIN * _turn(tool[1], orientation))

    def close(self) -> None:
        """Hand back if a person leads: a subscriber that misses this waits for the human."""
        from rclpy.duration import Duration

        if self._held_by is None and not self._gripper[0]:
            return
        self._gripper = (0.0, 0.0)
        self._release()
        self._interventions.wait_for_all_acked(Duration(seconds=1.0))

    def _on_drag(self, phase: str, browser: int, position: Array, orientation: Array) -> None:
        if self._held_by not in (None, browser):
            return  # the tool follows one person
        if phase == "end":
            self._release()
            return
        if self._held_by is None:
            self._held_by = browser
            self._lead(True)
        w, x, y, z = orientation
        self._wanted = position, np.array([x, y, z, w])

    def _release(self) -> None:
        """Hand back."""
        self._held_by = self._wanted = None
        self._publish(np.zeros(3), np.zeros(3))
        self._lead(False)

    def _lead(self, human: bool) -> None:
        self._interventions.publish(self._kinds[topics.INTERVENE](data=human))

    def _publish(self, linear: Array, angular: Array) -> None:
        message = self._kinds[topics.TELEOP_TWIST]()
        message.header.frame_id = topics.BODY_FRAME
        v, r = message.twist.linear, message.twist.angular
        v.x, v.y, v.z = linear.tolist()
        r.x, r.y, r.z = angular.tolist()
        self._twists.publish(message)


def _turn(now: Array, wanted: Array) -> Array:
    """Return the rotation vector, rad, from one orientation (4,) xyzw to another, in the frame that both are in."""
    x, y, z, w = frames.multiply(wanted, now * np.array([-1.0, -1.0, -1.0, 1.0]))
    vector = np.array([x, y, z]) * (1.0 if w >= 0.0 else -1.0)
    length = float(np.linalg.norm(vector))
    return vector * (2.0 * np.arctan2(length, abs(w)) / length) if length > 1e-9 else np.zeros(3)


def tool_link(name: str) -> str:
    """Return the link of a known arm's tool, by the arm's name; empty: there is no such arm."""
    robot = load_robot(name) if name in robot_names() else None
    return str(getattr(robot, "tool_link", ""))
