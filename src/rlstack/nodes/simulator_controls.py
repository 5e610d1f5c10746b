"""What a person controls of a robot node's simulation: its pace, pauses, pushes of its robots, and their motors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.kind_topics import simulated
from rlstack.nodes.robot_topics import RobotTopics
from rlstack.nodes.timekeeping import RealTime, Timekeeper
from rlstack.robots import frames

_FACTOR = "real_time_factor"


class SimulatorControls:
    """Offers a simulation's controls; a real robot has none.

    Args:
        node: The robot node (:class:`rlstack.nodes.runtime.ManagedNode`), while it is configured.
        keeper: Its timekeeping.
        robots: Its robots.
    """

    def __init__(self, node: Any, keeper: Timekeeper, robots: Sequence[RobotTopics]) -> None:
        self._node, self._time, self._robots = node, keeper, robots
        node.parameters.check = self._why_not
        if not keeper.owns_time:
            return
        from std_srvs.srv import SetBool

        node.server(SetBool, topics.PAUSE, self._on_pause)
        for robot in robots:
            if simulated(robot.backend) is not None and not robot.robot.fixed_base:
                self._take_pushes(robot)

    def start(self) -> None:
        """Take the values that the parameters began with.

        Raises:
            UserError: They are not possible here.
        """
        for robot in self._robots:
            # a default changes nothing: whoever made a hosted simulation may have perturbed it already
            live = {one.name: one.default for one in robot.kind.PARAMETERS if one.live}
            given = {name: self._node.parameters[name] for name in live}
            values = {name: value for name, value in given.items() if value != live[name]}
            if why := robot.kind.change(robot.backend, values):
                raise UserError(f"{why}.")

    def _why_not(self, changes: Mapping[str, Any]) -> str:
        """Return why live changes of parameters are not possible here; empty: they are."""
        if _FACTOR not in changes or (isinstance(self._time, RealTime) and self._time.owns_time):
            # what is refused is refused for every robot, before the first one has changed
            return next(filter(None, (one.kind.change(one.backend, changes) for one in self._robots)), "")
        why = "in lock step, time waits for commands" if self._time.owns_time else "a real robot's time is its own"
        return f"{_FACTOR}: it cannot change: {why}"

    def _on_pause(self, request: Any, response: Any) -> Any:
        if not self._node.active:
            response.message = "The robot node is not active."
            return response
        self._time.pause(request.data)
        response.success, response.message = True, "Paused." if request.data else "Time passes again."
        return response

    def _take_pushes(self, robot: RobotTopics) -> None:
        topic = robot.prefix + topics.DISTURBANCE

        def push(message: Any) -> None:
            if not self._node.active:
                return
            force, torque = (_xyz(part) for part in (message.wrench.force, message.wrench.torque))
            turn = self._turn(robot, message.header.frame_id)
            if turn is None or not (np.isfinite(force).all() and np.isfinite(torque).all()):
                self._node.warn(
                    f"A message on {topic} was refused: its numbers must be finite, and its frame"
                    f" {robot.frames.odom} or {robot.frames.base}.",
                    topic,
                )
                return
            one = simulated(robot.backend)
            assert one is not None
            body = one.simulation.motion(one.index)["orientation"]
            force, torque = frames.rotate(turn, force), frames.rotate_inverse(body, frames.rotate(turn, torque))
            one.simulation.push(one.index, force, torque, topics.DISTURBED_S)

        self._node.subscriber(topics.type_of(topics.DISTURBANCE), topic, push, "command")

    def _turn(self, robot: RobotTopics, frame: str) -> Array | None:
        """Return the orientation xyzw in the world of a frame that wrenches may be in; None: of no other."""
        if frame in ("", robot.frames.odom):
            return np.array([0.0, 0.0, 0.0, 1.0])
        one = simulated(robot.backend)
        if frame != robot.frames.base or one is None:
            return None
        return np.asarray(one.simulation.motion(one.index)["orientation"])


def _xyz(vector: Any) -> Array:
    return np.array([vector.x, vector.y, vector.z])
