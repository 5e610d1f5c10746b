"""One controller of ros2_control, by what any node can ask of it: its topics, its parameters, its manager."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.node_names import name_of

TRAJECTORY, FORWARD = "joint_trajectory", "commands"
"""Topics of a joint_trajectory_controller and of a forward_command_controller, below the controller's name."""
_TYPES = {TRAJECTORY: "trajectory_msgs/msg/JointTrajectory", FORWARD: topics.PLAIN_JOINTS}
_INTERFACES = {TRAJECTORY: "command_interfaces", FORWARD: "interface_name"}
"""Parameters that say what a controller writes: positions, velocities, efforts."""
_ANSWER_S = 4.0

Spin = Callable[[Callable[[], bool], float], bool]
"""Works on messages until something holds, or seconds have passed; returns whether it holds."""


class Controller:
    """A controller that takes positions of joints.

    Args:
        node: Of rclpy.
        name: The controller's full name, such as ``/arm/joint_trajectory_controller``.
        spin: See :data:`Spin`.

    Raises:
        UserError: There is none of that name, or it takes something else.
    """

    def __init__(self, node: Any, name: str, spin: Spin) -> None:
        self._node, self.name, self._spin = node, name, spin
        if not spin(lambda: bool(self._kinds()), _ANSWER_S):
            raise UserError(
                f"No controller listens on {name}/{TRAJECTORY} or {name}/{FORWARD}; such topics here:"
                f" {', '.join(self._others()) or 'none'}. Load it (ros2 control load_controller), or correct the URI."
            )
        self.kind = self._kinds()[0]
        found = {one.topic_type for one in node.get_subscriptions_info_by_topic(f"{name}/{self.kind}")}
        if found != {_TYPES[self.kind]}:
            raise UserError(
                f"The topic {name}/{self.kind} has the type {', '.join(sorted(found))}, not {_TYPES[self.kind]}."
            )
        self.joints, writes = self._parameters(("joints", _INTERFACES[self.kind]))
        """Names, in its order."""
        if "position" not in writes:
            raise UserError(f"The controller {name} writes {', '.join(writes)}: rlstack commands positions.")

    def check_joints(self, wanted: Sequence[str], robot: str) -> None:
        """Refuse a controller of other joints than these.

        Raises:
            UserError: It has others; the message has both lists.
        """
        if sorted(self.joints) != sorted(wanted):
            raise UserError(
                f"The controller {self.name} has the joints {', '.join(self.joints)}, and the robot file of {robot}"
                f" has {', '.join(wanted)}."
            )

    def check_active(self, manager: str) -> bool:
        """Ask the controller manager whether it is active; return False if its messages are not installed here.

        Raises:
            UserError: It is in another state, or the manager does not know it.
        """
        try:
            service = importlib.import_module("controller_manager_msgs.srv").ListControllers
        except ModuleNotFoundError:
            return False
        answer = self._asked(service, f"{manager}/list_controllers", service.Request())
        check_state(self.name, {one.name: one.state for one in answer.controller}, manager)
        return True

    def check_free(self) -> None:
        """Refuse a controller that another program commands.

        Raises:
            UserError: Another node publishes on its topic; the message names it.
        """
        topic = f"{self.name}/{self.kind}"
        if self._publishers(topic):
            # ROS states a publisher and the name of its node one after the other
            self._spin(lambda: all(map(name_of, self._publishers(topic))), _ANSWER_S)
        others = [name_of(one) or "a program that is no ROS node" for one in self._publishers(topic)]
        if others:
            raise UserError(f"{', '.join(others)} already commands {topic}: end that program.")

    def _publishers(self, topic: str) -> list[Any]:
        return list(self._node.get_publishers_info_by_topic(topic))

    def _kinds(self) -> list[str]:
        return [kind for kind in _TYPES if self._node.count_subscribers(f"{self.name}/{kind}")]

    def _others(self) -> list[str]:
        found = [name for name, types in self._node.get_topic_names_and_types() if set(types) & set(_TYPES.values())]
        return sorted(name for name in found if self._node.count_subscribers(name))

    def _parameters(self, names: Sequence[str]) -> list[list[str]]:
        service = importlib.import_module("rcl_interfaces.srv").GetParameters
        answer = self._asked(service, f"{self.name}/get_parameters", service.Request(names=list(names)))
        values = [list(value.string_array_value) or [value.string_value] for value in answer.values]
        if len(values) != len(names) or not all(all(value) for value in values):
            raise UserError(f"The controller {self.name} has no parameters {' and '.join(names)}: is it configured?")
        return values

    def _asked(self, service: Any, name: str, request: Any) -> Any:
        client = self._node.create_client(service, name)
        try:
            if self._spin(client.service_is_ready, _ANSWER_S):
                future = client.call_async(request)
                if self._spin(future.done, _ANSWER_S):
                    return future.result()
            raise UserError(f"The service {name} does not answer: is it running, in this ROS domain?")
        finally:
            self._node.destroy_client(client)


def check_state(name: str, states: dict[str, str], manager: str) -> None:
    """Refuse a controller that is not active.

    Raises:
        UserError: It is not, by its manager's list of names and states.
    """
    short = name.rpartition("/")[2]
    if short not in states:
        raise UserError(f"{manager} has no controller {short}; it has: {', '.join(sorted(states)) or 'none'}.")
    if states[short] != "active":
        raise UserError(
            f"The controller {short} is {states[short]}, not active: ros2 control set_controller_state {short} active."
        )


def spin_until(executor: Any, condition: Callable[[], bool], timeout_s: float) -> bool:
    """Work on messages until a condition holds; return whether it does."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        executor.spin_once(timeout_sec=0.01)
    return True
